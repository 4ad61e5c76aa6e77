"""What goes over the wire and into Kafka: frames, internal records, names, digest, partitioner. Pure."""

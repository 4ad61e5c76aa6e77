"""The data on the wire and in Kafka: frames, internal records, names, digest, partitioner. Pure."""

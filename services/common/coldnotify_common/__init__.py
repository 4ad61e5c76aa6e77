"""What every service needs: settings, logging, the admin HTTP port, Kafka client configuration."""

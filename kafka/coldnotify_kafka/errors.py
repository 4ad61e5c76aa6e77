"""Everything that can go wrong with Kafka on our side, as one tree.

ColdNotifyKafkaError
├── BrokerError                 the embedded broker
│   ├── BrokerSettingError      a setting that cannot be used; the message names it
│   ├── JarsUnavailableError    Kafka's jars are not in the cache and cannot be fetched
│   ├── JavaUnavailableError    no Java that can run Kafka
│   ├── PortTakenError          another program listens where the broker is to listen
│   ├── DataDirectoryError      the data directory cannot be used
│   │   ├── DataDirectoryInUseError   another broker runs on it
│   │   └── DiskFullError             its disk is full
│   └── BrokerNotReadyError     did not become ready, or ended by itself; the message holds its log's tail
├── AclsError                   who may do what, as code
│   ├── AclsFileError           acls.yaml is not right; the message names role and entry
│   └── AclsNotAppliedError     Kafka did not carry out a change, or not in time
├── QuotaNotAppliedError        a quota of Kafka's own was not set or removed
└── TopicsError                 topics as code
    ├── TopicsFileError         topics.yaml is not right; the message names topic and key
    ├── TopicsRefusedError      the plan holds changes that would break something or lose data
    └── TopicsNotAppliedError   Kafka did not carry out a change, or not in time
"""


class ColdNotifyKafkaError(Exception):
    """The root of this package's errors; the message is written for the person who runs ColdNotify."""


class BrokerError(ColdNotifyKafkaError):
    """The embedded broker cannot do what was requested."""


class BrokerSettingError(BrokerError):
    """A setting of the embedded broker cannot be used; the message names it."""


class JarsUnavailableError(BrokerError):
    """Kafka's jars are not in the cache and cannot be fetched; the message names a remedy."""


class JavaUnavailableError(BrokerError):
    """No Java that can run Kafka was found; the message lists where it was searched for."""


class PortTakenError(BrokerError):
    """Another program listens on the port; the message names the port and its setting."""


class DataDirectoryError(BrokerError):
    """The data directory cannot be used; the message names it."""


class DataDirectoryInUseError(DataDirectoryError):
    """Another broker runs on the data directory."""


class DiskFullError(DataDirectoryError):
    """The disk of the data directory is full; the message states how much is free, and how much is needed."""


class BrokerNotReadyError(BrokerError):
    """The broker ended by itself or was not ready in time; the message holds the tail of its log."""


class AclsError(ColdNotifyKafkaError):
    """ACLs as code cannot do what was requested."""


class AclsFileError(AclsError):
    """acls.yaml is not right; the message names role and entry."""


class AclsNotAppliedError(AclsError):
    """Kafka did not carry out a change, or not within the limit; a Kafka without an authorizer never does."""


class QuotaNotAppliedError(ColdNotifyKafkaError):
    """Kafka, or the tool that asks it, has not set or removed a quota; the message contains its output."""


class TopicsError(ColdNotifyKafkaError):
    """Topics as code cannot do what was requested."""


class TopicsFileError(TopicsError):
    """topics.yaml is not right; the message names topic and key."""


class TopicsRefusedError(TopicsError):
    """The plan holds changes that would break co-partitioning or lose data; nothing was changed."""


class TopicsNotAppliedError(TopicsError):
    """Kafka did not carry out a change, or not within the limit."""

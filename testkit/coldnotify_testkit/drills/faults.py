"""All faults, each with the alerts that fire by it. The quick ones are FAULTS; DRILLS take minutes together."""

from coldnotify_testkit.drills.channel_faults import (
    a_log_is_damaged_on_disk,
    many_come_back_from_different_days,
    messages_are_read_slowly,
    messages_are_removed_unread,
)
from coldnotify_testkit.drills.device_faults import (
    a_client_comes_and_goes,
    a_device_reads_slowly,
    an_application_raises,
    devices_never_read,
    too_many_connect,
)
from coldnotify_testkit.drills.hook_faults import a_receiver_of_a_webhook_is_gone
from coldnotify_testkit.drills.process_faults import (
    a_matcher_hangs_and_is_replaced,
    few_files_may_be_open,
    gateway_stands_still,
    kafka_is_gone,
    kafka_pauses,
    matcher_stands_still,
    the_list_of_the_revoked_is_cut_short,
    two_matchers_have_one_name,
)
from coldnotify_testkit.drills.reading_faults import (
    loading_is_throttled,
    the_inbox_is_emptied,
    what_is_read_is_throttled,
)
from coldnotify_testkit.drills.record_faults import (
    a_gateways_clock_is_wrong,
    a_later_release_has_written,
    nonsense_is_published,
    nulls_remove_nothing,
    old_news_is_published,
    strangers_write_into_our_topics,
    versions_are_below_the_newest,
)
from coldnotify_testkit.drills.scene import Fault
from coldnotify_testkit.drills.share_faults import a_worker_stands_still_with_an_old_task
from coldnotify_testkit.drills.tenant_faults import (
    a_tenant_floods,
    nobody_measures_tenants,
    tenants_are_written_by_hand,
)

FAULTS: dict[Fault, set[str]] = {
    few_files_may_be_open: {"OpenFilesNearLimit"},
    gateway_stands_still: {"ProcessDown", "NoGateway"},
    matcher_stands_still: {
        "ProcessDown",
        "PartitionNotServed",
        "PartitionNotServedForHours",
        "MatcherSilent",
        "ClientsStale",
    },
}
DRILLS: dict[Fault, set[str]] = {
    the_list_of_the_revoked_is_cut_short: {"RevokedListUnusable"},
    nonsense_is_published: {"RecordsRejected"},
    strangers_write_into_our_topics: {"RecordsSetAside"},
    a_later_release_has_written: {"PartitionNotServed", "PartitionNotServedForHours"},
    versions_are_below_the_newest: {"PublishesStale"},
    a_gateways_clock_is_wrong: {"RemovalsStandStill"},
    nulls_remove_nothing: {"PublishesStale"},
    nobody_measures_tenants: {"VerdictsStale"},
    a_tenant_floods: {"TenantAtLimit"},
    tenants_are_written_by_hand: {"TenantRecordDamaged"},
    old_news_is_published: {"DeliverySlow"},
    too_many_connect: {"ConnectionsRefused"},
    a_client_comes_and_goes: {"ReconnectStorm"},
    a_device_reads_slowly: {"SlowClients"},
    an_application_raises: {"CallbacksRaise"},
    devices_never_read: {"ClientsCutOff"},
    the_inbox_is_emptied: {"InboxGaps", "SessionsDisagree"},
    kafka_pauses: {"KafkaSlow"},
    what_is_read_is_throttled: {"MatcherLags", "StandbyLags"},
    messages_are_read_slowly: {"MatcherLags"},
    messages_are_removed_unread: {"MessagesMissed"},
    many_come_back_from_different_days: {"ChannelsCatchUpSlow"},
    a_log_is_damaged_on_disk: {"MessagesMissed"},
    a_worker_stands_still_with_an_old_task: {"ShareWaitsLong"},
    loading_is_throttled: {"TakeoverSlow"},
    a_receiver_of_a_webhook_is_gone: {"WebhookSuspended"},
    a_matcher_hangs_and_is_replaced: {"PartitionServedTwice"},
    two_matchers_have_one_name: {"MatcherReloads", "TakeoverStorm"},
    kafka_is_gone: {"NotReady", "KafkaUnreachable", "RequestsNotTaken", "PublishesNotAcknowledged"},
}
NOT_DRILLED = {
    "DiskNearlyFull": "takes a full disk; test_full_disk fills a small one",
    "SourceBehind": "no source is in the scene; services/auto/tests/test_app.py has one that is away",
}
"""Alerts that no fault here makes fire, and why. Their expressions are tested by themselves (`alerts_test.yml`)."""

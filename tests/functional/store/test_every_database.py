"""The tests of the store once more, on SQLite, PostgreSQL and MariaDB: what holds on one holds on all."""

# ruff: noqa: F401

from __future__ import annotations

from tests.unit.store.test_events import (
    test_a_pull_is_kept_with_its_verdict,
    test_an_event_of_a_newer_version_is_shown_as_unknown,
    test_events_older_than_history_go,
    test_the_newest_come_first_and_can_be_had_by_subject,
)
from tests.unit.store.test_growth import (
    test_a_tally_takes_the_place_of_the_one_before_and_goes_with_its_host,
    test_a_version_is_never_one_that_was,
    test_hosts_have_their_turns_and_none_has_two_of_a_day,
    test_of_a_host_with_many_vms_some_are_looked_at,
    test_the_table_that_was_saved_last_holds_and_a_damaged_one_is_told,
    test_the_worst_of_each_hour_of_those_that_have_a_forecast_is_looked_at,
)
from tests.unit.store.test_instances import (
    test_a_first_list_that_is_not_whole_changes_nothing_yet,
    test_a_whole_list_drops_what_is_not_in_it_and_changes_drop_what_was_deleted,
    test_events_and_requests_follow_the_same_word,
    test_one_looks_at_a_time_and_who_says_nothing_loses_the_turn,
    test_where_it_runs_is_where_nova_runs_it,
    test_where_nova_is_followed_no_hosts_word_counts,
    test_who_asks_for_changes_is_told_of_another_owner,
    test_without_nova_a_project_sees_what_the_hosts_agree_in,
)
from tests.unit.store.test_marks import (
    test_all_marks_come_oldest_first,
    test_another_instance_begins_anew,
    test_hosts_that_share_a_store_do_not_share_marks,
    test_marks_are_a_ledger,
    test_the_first_value_before_is_kept_while_the_instance_lives,
)
from tests.unit.store.test_policies import (
    test_a_wish_is_changed_and_taken_back,
    test_an_operators_changes_hold_together_or_not_at_all,
    test_replace_by_the_same_writes_nothing,
    test_replace_drops_what_is_not_said_any_more_and_leaves_other_origins,
    test_what_no_key_takes_is_damage_when_it_is_stored,
    test_what_no_key_takes_is_not_stored,
    test_wishes_are_kept_by_domain_and_origin,
)
from tests.unit.store.test_promises import (
    test_an_hour_is_judged_once_and_the_worst_are_told,
    test_each_host_is_due_once_an_hour_and_goes_on_where_it_was,
    test_hours_go_when_they_are_old_and_with_their_host,
)
from tests.unit.store.test_reclaims import (
    test_a_request_goes_from_its_making_to_its_end,
    test_a_request_of_a_memhint_that_knew_no_hold_is_read,
    test_a_store_of_the_first_version_is_upgraded_and_keeps_what_it_has,
    test_hosts_that_share_a_store_do_not_share_requests,
    test_one_that_holds_has_not_ended,
    test_the_oldest_waits_first_and_the_newest_shows_first,
    test_what_cannot_be_a_request_is_damage,
    test_what_ended_long_ago_goes_and_what_waits_stays,
    test_what_has_ended_stays_as_it_ended,
    test_what_no_guest_could_be_asked_is_not_stored,
)
from tests.unit.store.test_reports import (
    short,
    test_a_damaged_document_is_said_to_be_one,
    test_an_empty_store_has_no_report,
    test_history_has_the_key_numbers_of_every_cycle,
    test_history_that_grows_old_is_thinned_as_reports_come,
    test_hosts_are_kept_apart,
    test_only_the_newest_report_of_a_host_is_kept,
    test_report_and_history_are_saved_together_or_not_at_all,
)
from tests.unit.store.test_schema import (
    test_a_store_of_a_newer_memhint_is_refused,
    test_a_store_of_an_older_memhint_is_only_upgraded_by_the_agent,
    test_a_store_that_is_up_to_date_is_left_alone,
    test_an_interrupted_upgrade_leaves_nothing_behind,
    test_migrations_make_the_tables_of_the_metadata,
)
from tests.unit.store.test_states import (
    test_a_new_boot_replaces_the_state_of_the_last,
    test_a_planners_state_comes_back_in_the_same_boot_only,
)

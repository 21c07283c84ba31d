//! Tables of the rules of the schedule.

#[path = "../src/schedule/limits.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the schedule uses all of these bounds"
)]
mod limits;

use std::time::Duration;

use limits::*;
use zoarium_host::{
    FlushAt, FlushOrder, Runner, Schedule, ScheduleSettings, Syncer, WaitingGroup, WaitingWork,
    Writer,
};

const SETTINGS: ScheduleSettings = ScheduleSettings {
    processors: 4,
    visitors: 4,
    has_members: true,
    syncs_at_once: true,
};

const STANDALONE: ScheduleSettings = ScheduleSettings {
    has_members: false,
    ..SETTINGS
};

const NOW_MS: i64 = 10_000;

/// One transaction, and an idle log.
const SINGLE: WaitingGroup = WaitingGroup {
    txns: 1,
    bytes: 100,
    since_ms: NOW_MS,
    follows_orders: false,
    is_visitor_syncing: false,
    is_log_idle: true,
    is_log_full: false,
};

const IN_TURN: WaitingWork = WaitingWork {
    is_in_turn: true,
    is_in_inbox: false,
};
const IN_INBOX: WaitingWork = WaitingWork {
    is_in_turn: false,
    is_in_inbox: true,
};

/// Creates a schedule after this number of groups with one transaction each.
fn after_singles(settings: ScheduleSettings, singles: u32) -> Schedule {
    let mut schedule = Schedule::new(settings);
    (0..singles).for_each(|_| schedule.note_group(1, Syncer::LogThread));
    schedule
}

fn lone(settings: ScheduleSettings) -> Schedule {
    after_singles(settings, LONE_AFTER_GROUPS)
}

#[test]
fn the_core_runs_on_the_thread_with_the_fewest_wake_ups() {
    let one_processor = ScheduleSettings {
        processors: 1,
        ..SETTINGS
    };
    let one_visitor = ScheduleSettings {
        visitors: 1,
        ..SETTINGS
    };
    let mut many = lone(SETTINGS);
    many.note_group(2, Syncer::LogThread);
    #[rustfmt::skip]
    let rows = [
        (lone(SETTINGS), Runner::VisitingThread, "a lone writer waits for each wake-up"),
        (after_singles(SETTINGS, LONE_AFTER_GROUPS - 1), Runner::OwnThread, "nobody knows yet whether it is alone"),
        (many, Runner::OwnThread, "many writers' threads have enough to do"),
        (lone(STANDALONE), Runner::OwnThread, "the core may sync, and a visitor must not wait for that"),
        (lone(one_processor), Runner::OwnThread, "nothing else could run meanwhile"),
        (lone(one_visitor), Runner::OwnThread, "no other visitor could run meanwhile"),
    ];
    for (schedule, runner, reason) in rows {
        assert_eq!(schedule.runner_of_message(), runner, "{reason}");
    }
    #[rustfmt::skip]
    let rows = [
        (1, Runner::LogThread, "it would only wait for the next group"),
        (LOG_GROUP_INLINE_MAX, Runner::LogThread, "as long as a wake-up"),
        (LOG_GROUP_INLINE_MAX + 1, Runner::OwnThread, "the log thread has more to write"),
    ];
    for (txns, runner, reason) in rows {
        assert_eq!(Schedule::runner_after_sync(txns), runner, "{reason}");
    }
}

#[test]
fn the_core_of_a_standalone_server_syncs_what_its_only_writer_waits_for() {
    let after = |slow: Duration| {
        let mut schedule = Schedule::new(STANDALONE);
        schedule.note_sync(slow);
        schedule
    };
    let waits = |work| {
        let mut schedule = Schedule::new(STANDALONE);
        schedule.begin_input(work);
        schedule
    };
    let delayed = ScheduleSettings {
        syncs_at_once: false,
        ..STANDALONE
    };
    let of = |txns, bytes| WaitingGroup {
        txns,
        bytes,
        ..SINGLE
    };
    let (txns_max, bytes_max) = (
        LOG_GROUP_SYNCED_BY_CORE_MAX,
        LOG_GROUP_BYTES_SYNCED_BY_CORE_MAX,
    );
    let busy = WaitingGroup {
        is_log_idle: false,
        ..SINGLE
    };
    let new = || Schedule::new(STANDALONE);
    #[rustfmt::skip]
    let rows = [
        (new(), SINGLE, Syncer::CoreThread, "it spares two wake-ups"),
        (new(), of(txns_max, bytes_max), Syncer::CoreThread, "still short"),
        (new(), of(txns_max + 1, 100), Syncer::LogThread, "pipelined: the core prepares the next group meanwhile"),
        (new(), of(1, bytes_max + 1), Syncer::LogThread, "long: it would have to be copied"),
        (new(), busy, Syncer::LogThread, "earlier records must be on disk first"),
        (waits(IN_TURN), SINGLE, Syncer::LogThread, "the core has work"),
        (waits(IN_INBOX), SINGLE, Syncer::LogThread, "the core has work"),
        (after(SYNC_BY_CORE_SLOW), SINGLE, Syncer::CoreThread, "quick enough"),
        (after(SYNC_BY_CORE_SLOW * 2), SINGLE, Syncer::LogThread, "clients must not wait for a slow disk"),
        (Schedule::new(delayed), SINGLE, Syncer::LogThread, "it waits for others to sync with"),
        (Schedule::new(SETTINGS), SINGLE, Syncer::LogThread, "other members wait for the core of a member"),
        (lone(SETTINGS), SINGLE, Syncer::LogThread, "also for a lone writer: a task may be running the core"),
    ];
    for (schedule, group, syncer, reason) in rows {
        assert_eq!(schedule.syncer(&group, NOW_MS), syncer, "{reason}");
    }
}

#[test]
fn a_visitor_of_a_member_syncs_after_its_visit_if_it_can() {
    let visited = |settings| {
        let mut schedule = lone(settings);
        schedule.begin_turn(true);
        schedule
    };
    let mut left = visited(SETTINGS);
    left.begin_turn(false);
    let mut slow = visited(SETTINGS);
    slow.note_sync(SYNC_BY_CORE_SLOW * 2);
    let mut observer = visited(SETTINGS);
    observer.note_role(true);
    let behind_visitor = WaitingGroup {
        is_visitor_syncing: true,
        is_log_idle: false,
        ..SINGLE
    };
    let busy = WaitingGroup {
        is_log_idle: false,
        ..SINGLE
    };
    let many = WaitingGroup {
        txns: LOG_GROUP_SYNCED_BY_CORE_MAX + 1,
        ..SINGLE
    };
    #[rustfmt::skip]
    let rows = [
        (visited(SETTINGS), SINGLE, Syncer::Visitor, "it spares a wake-up"),
        (left, SINGLE, Syncer::LogThread, "another thread runs the core, and has other work"),
        (visited(SETTINGS), busy, Syncer::LogThread, "earlier records must be on disk first"),
        (visited(SETTINGS), behind_visitor, Syncer::NotYet, "the log thread could overtake the visitor"),
        (visited(SETTINGS), many, Syncer::LogThread, "pipelined: the visitor brings the next packets meanwhile"),
        (slow, SINGLE, Syncer::LogThread, "each slow sync would hold a thread of the runtime"),
        (observer, SINGLE, Syncer::NotYet, "nobody waits for it"),
        (visited(STANDALONE), SINGLE, Syncer::CoreThread, "nothing but clients waits for the core"),
    ];
    for (schedule, group, syncer, reason) in rows {
        assert_eq!(schedule.syncer(&group, NOW_MS), syncer, "{reason}");
    }
}

#[test]
fn a_group_waits_for_the_queue_and_at_an_observer_for_more_records() {
    let full = WaitingGroup {
        is_log_full: true,
        is_log_idle: false,
        ..SINGLE
    };
    let behind = WaitingGroup {
        follows_orders: true,
        ..SINGLE
    };
    let old = WaitingGroup {
        since_ms: NOW_MS - OBSERVER_GROUP_MS,
        ..SINGLE
    };
    let large = WaitingGroup {
        bytes: OBSERVER_GROUP_BYTES,
        ..SINGLE
    };
    let empty = WaitingGroup { txns: 0, ..SINGLE };
    let visited = WaitingGroup {
        is_visitor_syncing: true,
        ..SINGLE
    };
    #[rustfmt::skip]
    let rows = [
        (false, empty, Syncer::NotYet, None, "there is nothing"),
        (true, visited, Syncer::NotYet, None, "the end of the visitor's sync comes back to it"),
        (false, full, Syncer::NotYet, None, "the log thread's next report comes back to it"),
        (false, behind, Syncer::NotYet, None, "orders keep their places"),
        (false, SINGLE, Syncer::LogThread, None, "others wait for a voter's log"),
        (true, SINGLE, Syncer::NotYet, Some(NOW_MS + OBSERVER_GROUP_MS), "nobody waits, and voters may share the disk"),
        (true, old, Syncer::LogThread, Some(NOW_MS), "it has waited"),
        (true, large, Syncer::LogThread, None, "it is long enough"),
        (true, full, Syncer::NotYet, None, "the time would pass and nothing could be done"),
        (true, behind, Syncer::NotYet, None, "orders keep their places"),
    ];
    for (is_late, group, syncer, gathers_until_ms, reason) in rows {
        let mut schedule = Schedule::new(SETTINGS);
        schedule.note_role(is_late);
        assert_eq!(schedule.syncer(&group, NOW_MS), syncer, "{reason}");
        assert_eq!(
            schedule.gathers_until_ms(&group),
            gathers_until_ms,
            "{reason}"
        );
    }
}

#[test]
fn after_a_slow_sync_the_log_thread_has_the_next_groups_and_a_slow_disk_for_good() {
    let slow = SYNC_BY_CORE_SLOW * 2;
    let mut schedule = Schedule::new(STANDALONE);
    schedule.note_sync(slow);
    for _ in 0..GROUPS_LEFT_TO_LOG_THREAD {
        assert_eq!(schedule.syncer(&SINGLE, NOW_MS), Syncer::LogThread);
        schedule.note_group(1, Syncer::LogThread);
        schedule.note_sync(SYNC_BY_CORE_SLOW);
    }
    assert_eq!(
        schedule.syncer(&SINGLE, NOW_MS),
        Syncer::CoreThread,
        "it is quick again"
    );
    schedule.note_sync(slow);
    for _ in 0..2 * GROUPS_LEFT_TO_LOG_THREAD {
        assert_eq!(
            schedule.syncer(&SINGLE, NOW_MS),
            Syncer::LogThread,
            "always slow"
        );
        schedule.note_group(1, Syncer::LogThread);
        schedule.note_sync(slow);
    }
}

#[test]
fn the_core_writes_where_it_delays_no_other_work() {
    let few = ScheduleSettings {
        processors: PROCESSORS_FEW,
        ..SETTINGS
    };
    let max = CLIENTS_WRITTEN_BY_CORE_MAX;
    #[rustfmt::skip]
    let rows = [
        (SETTINGS, WaitingWork::default(), max, Writer::Core, "a waiting client is spared a wake-up"),
        (SETTINGS, WaitingWork::default(), max + 1, Writer::Task, "tasks share the processors"),
        (SETTINGS, IN_TURN, 1, Writer::Task, "the core has work"),
        (SETTINGS, IN_INBOX, 1, Writer::Task, "the core has work"),
        (few, IN_INBOX, max, Writer::Core, "the task would wait for the same processor"),
        (few, IN_INBOX, max + 1, Writer::Task, "each of many writes would delay the others"),
    ];
    for (settings, waiting, clients, writer, reason) in rows {
        let mut schedule = Schedule::new(settings);
        schedule.begin_input(waiting);
        assert_eq!(schedule.writer_to_clients(clients), writer, "{reason}");
    }
    let max = LINKS_WRITTEN_BY_CORE_MAX;
    #[rustfmt::skip]
    let rows = [
        (max, Writer::Core, "a lone transaction waits for two wake-ups less"),
        (max + 1, Writer::Task, "each write would delay the others"),
    ];
    for (members, writer, reason) in rows {
        assert_eq!(Schedule::writer_to_members(members), writer, "{reason}");
    }
}

#[test]
fn the_member_whose_client_waits_is_written_to_first() {
    #[rustfmt::skip]
    let rows = [
        (true, FlushOrder::First, "its client waits for the commit"),
        (false, FlushOrder::Later, "no client of it waits"),
    ];
    for (is_latest_requester, place, reason) in rows {
        assert_eq!(
            Schedule::flush_order_of_member(is_latest_requester),
            place,
            "{reason}"
        );
    }
    assert!(FlushOrder::First < FlushOrder::Later, "hosts sort by it");
}

#[test]
fn a_sync_in_place_follows_the_step_of_its_flush_unless_more_has_arrived() {
    let longer = WaitingGroup {
        txns: LOG_GROUP_SYNCED_BY_CORE_MAX + 1,
        ..SINGLE
    };
    #[rustfmt::skip]
    let rows = [
        (STANDALONE, SINGLE, WaitingWork::default(), true, "it spares two wake-ups"),
        (STANDALONE, longer, WaitingWork::default(), false, "the step has appended more since the flush"),
        (STANDALONE, SINGLE, IN_INBOX, false, "the core has got work since the flush"),
        (SETTINGS, SINGLE, WaitingWork::default(), false, "other members wait for the core of a member"),
    ];
    for (settings, group, waiting, is_due, reason) in rows {
        let mut schedule = Schedule::new(settings);
        assert!(!schedule.sync_due(|| SINGLE), "nothing was flushed");
        schedule.flush_group(&SINGLE, NOW_MS);
        schedule.begin_input(waiting);
        assert_eq!(schedule.sync_due(|| group), is_due, "{reason}");
        assert!(!schedule.sync_due(|| SINGLE), "once for a flush");
    }
}

#[test]
fn a_flush_waits_for_more_packets_or_for_a_reply() {
    let new = || Schedule::new(SETTINGS);
    let alone = || lone(SETTINGS);
    #[rustfmt::skip]
    let rows = [
        (new(), IN_TURN, false, FlushAt::TurnEnd, "one write for all inputs of the turn"),
        (new(), IN_INBOX, false, FlushAt::Now, "the next turn may be far away"),
        (new(), IN_TURN, true, FlushAt::TurnEnd, "many writers' packets are worth more than one reply"),
        (alone(), IN_TURN, false, FlushAt::Now, "a lone writer waits for the first packet"),
        (alone(), IN_INBOX, true, FlushAt::StepEnd, "its reply precedes the packets to members"),
        (Schedule::new(STANDALONE), IN_TURN, false, FlushAt::Now, "its disk would be idle meanwhile"),
    ];
    for (mut schedule, waiting, answers_own, at, reason) in rows {
        schedule.begin_input(waiting);
        schedule.begin_step(answers_own);
        assert_eq!(schedule.flush(), at, "{reason}");
        assert_eq!(schedule.end_step(), at == FlushAt::StepEnd, "{reason}");
        assert_eq!(schedule.end_turn(), at == FlushAt::TurnEnd, "{reason}");
        assert!(
            !schedule.end_step() && !schedule.end_turn(),
            "one flush is enough"
        );
    }
}

#[test]
fn no_flush_is_left_out_and_a_long_turn_has_some_in_between() {
    let mut schedule = Schedule::new(SETTINGS);
    schedule.begin_input(IN_TURN);
    schedule.begin_step(false);
    assert_eq!(schedule.flush(), FlushAt::TurnEnd);
    // The last input of the turn does not need a flush.
    schedule.begin_input(WaitingWork::default());
    assert!(schedule.end_turn());

    schedule.begin_input(IN_TURN);
    let wanted = FLUSHES_DEFERRED_MAX + 1;
    let deferred = (0..wanted).filter(|_| schedule.flush() == FlushAt::TurnEnd);
    assert_eq!(deferred.count(), FLUSHES_DEFERRED_MAX);

    let mut schedule = lone(SETTINGS);
    schedule.begin_step(true);
    assert!(!schedule.end_step(), "no flush was wanted");
    assert_eq!(schedule.flush(), FlushAt::Now, "the step has ended");
}

//! Parameters of a run, which the seed determines before the first event.

use config::OnDigestMismatch;
use simulation::queue::{MS, Micros, SECOND};
use simulation::settings::{EnsembleSettings, Features};
use testkit::Random;

use crate::invariants::access::Identity;

/// Size and behaviour of an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) voters: usize,
    pub(crate) observers: usize,
    pub(crate) clients: usize,
    /// Maximum delay of a message. On a slow connection, the delay is up to three times as long.
    pub(crate) delay: Micros,
    /// Maximum duration of a sync, except for a few syncs that take 5 to 39 times as long.
    pub(crate) sync: Micros,
    /// Duration of the storm, in which faults occur.
    pub(crate) storm: Micros,
    /// Approximate average time between two faults.
    pub(crate) pause: Micros,
    /// Number of committed transactions that a server keeps in memory for learners.
    pub(crate) committed_len: usize,
    /// Maximum number of transactions after which a snapshot is due.
    pub(crate) snap_count: u64,
    /// Approximate number of bytes per step of a snapshot.
    pub(crate) chunk_bytes: usize,
    pub(crate) force_snapshot: bool,
    pub(crate) use_disk_log: bool,
    /// Maximum size of the transactions that a learner holds back during synchronisation, bytes.
    pub(crate) held_back_bytes_max: usize,
    /// Whether disks may corrupt data, fail, stall and fill up.
    pub(crate) has_bad_disks: bool,
    /// Whether a power failure may keep any subset of the unsynced sectors.
    pub(crate) loses_sectors: bool,
    /// Whether files of member lists may be corrupted, if an operator changes the members.
    pub(crate) lists_rot: bool,
    /// Whether the log has a separate directory.
    pub(crate) has_log_dir: bool,
    /// Whether processes pause and disks stall.
    pub(crate) has_stalls: bool,
    /// Whether leaders end before their epoch is established, with writes that only they have
    /// logged. If so, operators also request snapshots.
    pub(crate) ends_early: bool,
    /// Whether further faults occur, because a point of the storm has passed.
    pub(crate) strikes: bool,
    /// Whether wall clocks are set and drift.
    pub(crate) has_wrong_clocks: bool,
    /// Approximate average pause between two requests of a client.
    pub(crate) think: Micros,
    pub(crate) tick_ms: i64,
    pub(crate) features: Features,
}

/// Draws the optional features.
fn features_drawn(random: &mut Random) -> Features {
    let read_only_ms = random.range(300, 1500);
    let reconfigures = random.percent(25);
    Features {
        reconfigures,
        grows: reconfigures && random.percent(40),
        has_observer_masters: random.percent(40),
        local_sessions: random.percent(25),
        read_only_after_ms: random.percent(30).then_some(read_only_ms),
        enforces_quota: random.percent(50),
        record_bytes_max: random.pick(&[1 << 20, 1 << 20, 1500]).unwrap_or(1 << 20),
        has_oracle: false,
        on_digest_mismatch: OnDigestMismatch::Repair,
    }
}

impl Plan {
    /// Draws a plan without restrictions.
    pub(crate) fn drawn(random: &mut Random) -> Self {
        let features = features_drawn(random);
        let voters = random.pick(&[3, 3, 3, 3, 4, 5, 5, 6, 7]).unwrap_or(3);
        let observers = random.pick(&[0, 0, 1, 1, 2]).unwrap_or(0).min(7 - voters);
        let (voters, observers) = if features.reconfigures {
            // Three of five servers vote at the beginning and at the end. Meanwhile, an operator
            // changes the members.
            (3, 2)
        } else {
            (voters, observers)
        };
        let mut plan = Self {
            voters,
            observers,
            clients: 2 + random.below(4),
            delay: random.pick(&[MS, 5 * MS, 20 * MS]).unwrap_or(MS),
            sync: random.pick(&[MS, 10 * MS, 50 * MS]).unwrap_or(MS),
            storm: random.range(5, 13) * SECOND,
            pause: random.pick(&[150, 300, 600, 1500]).unwrap_or(500) * MS,
            committed_len: random.pick(&[1, 2, 5, 20, 500]).unwrap_or(500),
            snap_count: random.pick(&[4, 10, 40, 1000]).unwrap_or(40),
            chunk_bytes: random.pick(&[100, 1000, 100_000]).unwrap_or(1000),
            force_snapshot: random.percent(10),
            use_disk_log: random.percent(90),
            held_back_bytes_max: random.pick(&[1, 500, 16 << 20, 16 << 20]).unwrap_or(1),
            // The number of disks that may lose data depends on the number of voters, which an
            // operator changes.
            has_bad_disks: random.percent(40) && !features.reconfigures,
            loses_sectors: random.percent(50),
            lists_rot: false,
            has_log_dir: random.percent(50),
            has_stalls: random.percent(40),
            ends_early: false,
            strikes: false,
            has_wrong_clocks: random.percent(20),
            think: random.pick(&[15, 40, 150]).unwrap_or(40) * MS,
            tick_ms: 200,
            features,
        };
        // These values are drawn last, so that the other values of each seed stay the same.
        let (is_of_two, lists_rot) = (random.percent(5), random.percent(40));
        plan.lists_rot = lists_rot && features.reconfigures;
        plan.ends_early = random.percent(20);
        let is_standalone = random.percent(8);
        match (is_standalone, is_of_two) {
            (true, _) => plan.standalone(),
            (false, true) => plan.of_two(),
            (false, false) => plan,
        }
    }

    /// Returns a plan for recipes. The members do not change, and only contenders use the ensemble.
    /// The ensemble must be available most of the time, because otherwise the contenders only wait.
    pub(crate) fn for_recipes(self, random: &mut Random) -> Self {
        Self {
            clients: 0,
            pause: self.pause * random.pick(&[1, 4, 10]).unwrap_or(1),
            storm: self.storm.max(8 * SECOND),
            lists_rot: false,
            features: Features {
                reconfigures: false,
                grows: false,
                ..self.features
            },
            ..self
        }
    }

    /// Returns a plan with this number of voters, without the features that the formal model lacks.
    pub(crate) fn for_model(self, voters: usize) -> Self {
        Self {
            voters,
            observers: 0,
            use_disk_log: false,
            held_back_bytes_max: 16 << 20,
            has_bad_disks: false,
            lists_rot: false,
            features: Features {
                reconfigures: false,
                grows: false,
                has_oracle: false,
                has_observer_masters: false,
                ..self.features
            },
            ..self
        }
    }

    /// Returns this plan with an operator who removes and adds voters.
    pub(crate) fn with_reconfigurations(mut self) -> Self {
        self.features.reconfigures = true;
        self
    }

    /// Returns a plan with two voters and their oracle. The oracle relies on the disks of both
    /// voters, so the disks are not faulty. Observers learn from the leader, because observers of
    /// followers learn nothing while a single voter leads.
    pub(crate) fn of_two(self) -> Self {
        Self {
            voters: 2,
            observers: self.observers.min(1),
            has_bad_disks: false,
            lists_rot: false,
            features: Features {
                has_oracle: true,
                has_observer_masters: false,
                reconfigures: false,
                grows: false,
                ..self.features
            },
            ..self
        }
    }

    /// Returns a plan with a standalone server. Its disk is fast enough for in-place syncs unless
    /// it stalls. After a stall, the log thread syncs for the remaining life of that process.
    /// Faults are therefore frequent, so that they often end the process.
    pub(crate) fn standalone(self) -> Self {
        Self {
            voters: 1,
            observers: 0,
            sync: MS / 10,
            pause: self.pause.min(300 * MS),
            lists_rot: false,
            has_stalls: true,
            ends_early: false,
            features: Features {
                enforces_quota: self.features.enforces_quota,
                record_bytes_max: self.features.record_bytes_max,
                ..Features::PLAIN
            },
            ..self
        }
    }

    /// Returns a plan with three voters, and without clients and faults. Every script begins with
    /// this plan.
    pub(crate) fn quiet() -> Self {
        Self {
            voters: 3,
            observers: 0,
            clients: 0,
            delay: MS,
            sync: MS,
            storm: 0,
            pause: SECOND,
            committed_len: 500,
            snap_count: 1000,
            chunk_bytes: 100_000,
            force_snapshot: false,
            use_disk_log: true,
            held_back_bytes_max: 16 << 20,
            has_bad_disks: false,
            loses_sectors: false,
            lists_rot: false,
            has_log_dir: false,
            has_stalls: false,
            ends_early: false,
            strikes: false,
            has_wrong_clocks: false,
            think: 20 * MS,
            tick_ms: 200,
            features: Features::PLAIN,
        }
    }

    pub(crate) fn is_standalone(&self) -> bool {
        self.servers() == 1
    }

    pub(crate) fn servers(&self) -> usize {
        self.voters + self.observers
    }

    /// Returns the settings of the ensemble.
    pub(crate) fn settings(&self) -> EnsembleSettings {
        EnsembleSettings {
            voters: self.voters,
            observers: self.observers,
            delay: self.delay,
            sync: self.sync,
            committed_len: self.committed_len,
            snap_count: self.snap_count,
            chunk_bytes: self.chunk_bytes,
            force_snapshot: self.force_snapshot,
            use_disk_log: self.use_disk_log,
            held_back_bytes_max: self.held_back_bytes_max,
            loses_sectors: self.loses_sectors,
            has_log_dir: self.has_log_dir,
            has_stalls: self.has_stalls,
            tick_ms: self.tick_ms,
            super_digest: Some(Identity::Super.id()),
            features: self.features,
        }
    }
}

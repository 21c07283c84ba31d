//! Kills, pauses, restarts and partitions of real processes at random, during writes through every
//! member. Afterwards all members have every acknowledged write and equal trees.
//!
//! - `ZOARIUM_CHAOS_SECONDS`: duration, 60 by default.
//! - `ZOARIUM_CHAOS_SEED`: repeats the choices, though not their exact moments.
//! - `ZOARIUM_CHAOS_MEMBERS`: a letter for each voter, `z` Zoarium and `j` Java; the default is
//!   `zzzzz`. A Zoarium observer is added.

use std::time::{Duration, Instant};

use fastrand::Rng;
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, LoadSettings, check};
use tests::{Flavour, or_skip, wait_until};

use crate::faults::PROGRESS;

/// Time between two complete checks. For each check all faults end, and the writes are compared.
const ROUND: Duration = Duration::from_secs(50);
/// Pause between two faults.
const CALM_MS: std::ops::Range<u64> = 200..4000;

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    Some(value.unwrap_or_else(|| panic!("{name} cannot be {text:?}")))
}

fn voters() -> Vec<Flavour> {
    let ours = Flavour::under_test();
    let Some(letters) = setting::<String>("ZOARIUM_CHAOS_MEMBERS") else {
        return vec![ours; 5];
    };
    let flavour = |letter| match letter {
        'z' => ours,
        'j' => Flavour::Apache,
        other => panic!("{other:?} is no kind of member"),
    };
    letters.chars().map(flavour).collect()
}

/// The state of a run.
struct Chaos {
    rng: Rng,
    ensemble: Ensemble,
    begun: Instant,
}

impl Chaos {
    fn say(&self, what: &str) {
        println!("{:8.2} {what}", self.begun.elapsed().as_secs_f64());
    }

    fn any(&mut self, ids: &[u64]) -> Option<u64> {
        self.rng.choice(ids.iter().copied())
    }

    /// Chooses a member, every other time one whose loss has the greatest effect.
    fn victim(&mut self) -> Option<u64> {
        let leaders = if self.rng.bool() {
            self.ensemble.leaders()
        } else {
            Vec::new()
        };
        let up = self.ensemble.up();
        self.any(&leaders).or_else(|| self.any(&up))
    }

    fn disturb(&mut self) {
        match self.rng.u8(..100) {
            ..25 => self.kill(),
            25..33 => self.terminate(),
            33..48 => self.pause(),
            48..58 => self.cut_sides(),
            58..66 => self.cut_off_one(),
            66..74 => self.cut_one_way(),
            74..76 => self.kill_all(),
            76..88 => self.repair_one(),
            _ => self.repair(),
        }
    }

    fn kill(&mut self) {
        if let Some(id) = self.victim() {
            self.say(&format!("kill {id}"));
            self.ensemble.member_mut(id).kill();
        }
    }

    fn kill_all(&mut self) {
        self.say("kill all");
        for id in self.ensemble.up() {
            self.ensemble.member_mut(id).kill();
        }
    }

    fn terminate(&mut self) {
        if let Some(id) = self.victim() {
            self.say(&format!("terminate {id}"));
            self.ensemble.member_mut(id).terminate();
        }
    }

    fn pause(&mut self) {
        if let Some(id) = self.victim() {
            self.say(&format!("pause {id}"));
            self.ensemble.member_mut(id).pause();
        }
    }

    fn cut_sides(&mut self) {
        let (left, right): (Vec<u64>, Vec<u64>) = {
            let rng = &mut self.rng;
            self.ensemble.ids().into_iter().partition(|_| rng.bool())
        };
        self.say(&format!("cut {left:?} from {right:?}"));
        self.ensemble.network().cut(&left, &right);
    }

    fn cut_off_one(&mut self) {
        if let Some(id) = self.victim() {
            self.say(&format!("cut off {id}"));
            let ids = self.ensemble.ids();
            self.ensemble.network().cut(&[id], &ids);
        }
    }

    fn cut_one_way(&mut self) {
        let ids = self.ensemble.ids();
        if let (Some(from), Some(to)) = (self.victim(), self.any(&ids))
            && from != to
        {
            self.say(&format!("cut {from} to {to}, one way"));
            self.ensemble.network().cut_one_way(from, to);
        }
    }

    /// Starts or resumes one member that does not run.
    fn repair_one(&mut self) {
        let up = self.ensemble.up();
        let mut down = self.ensemble.ids();
        down.retain(|id| !up.contains(id));
        if let Some(id) = self.any(&down) {
            self.say(&format!("repair {id}"));
            self.bring_up(id);
        }
    }

    fn bring_up(&mut self, id: u64) {
        if self.ensemble.member(id).is_running() {
            self.ensemble.member_mut(id).resume();
        } else {
            self.ensemble.start(id);
        }
    }

    fn repair(&mut self) {
        self.say("repair all");
        self.ensemble.network().heal();
        let up = self.ensemble.up();
        for id in self.ensemble.ids() {
            if !up.contains(&id) {
                self.bring_up(id);
            }
        }
    }

    /// Checks that no process has ended by itself. (Java does in some cases by design. It is
    /// started again.)
    fn look_for_ended(&mut self) {
        for id in self.ensemble.ids() {
            let member = self.ensemble.member_mut(id);
            if let Some(status) = member.ended() {
                let flavour = member.flavour();
                assert_ne!(flavour, Flavour::Zoarium, "member {id} ended: {status}");
                self.say(&format!("{id} ended by itself: {status}"));
                self.ensemble.member_mut(id).kill();
            }
        }
    }

    /// Causes faults for a while, repairs everything, and checks the writes.
    fn round(&mut self, number: usize, time: Duration) {
        let addresses = self.ensemble.addresses(&self.ensemble.ids());
        let settings = LoadSettings {
            prefix: format!("r{number}w"),
            writers: addresses.len(),
            patience: Duration::from_secs(2),
            ..LoadSettings::default()
        };
        let load = Load::with(&addresses, &settings);
        load.wait_for_progress(PROGRESS);
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.disturb();
            let calm = Duration::from_millis(self.rng.u64(CALM_MS));
            wait_until(calm.min(end - Instant::now().min(end)), || {
                self.look_for_ended();
                None::<()>
            });
        }
        self.repair();
        self.ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
        let report = load.finish();
        self.say(&format!("round {number}: {}", report.summary()));
        check::nothing_is_lost(&self.ensemble, &report);
        self.say(&format!("round {number}: all is there and the same"));
        let session = self.ensemble.super_session(1);
        report.remove(&mut session.expect("a session after all is healed"));
    }
}

#[test]
#[ignore = "needs minutes of faults"]
fn acknowledged_writes_are_on_all_members_after_chaos() {
    let seconds = setting("ZOARIUM_CHAOS_SECONDS").unwrap_or(60);
    let seed = setting("ZOARIUM_CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let voters = voters();
    println!("ZOARIUM_CHAOS_SEED={seed} ZOARIUM_CHAOS_SECONDS={seconds}, {voters:?}");
    let places = u8::try_from(voters.len() + 1).expect("a few members");
    let builder = EnsembleBuilder::new(&voters)
        .observers(&[Flavour::under_test()])
        // Snapshots and their recovery should occur during faults.
        .property("zookeeper.snapCount", "2000")
        .in_network(places);
    let Some(ensemble) = or_skip("kills and partitions", builder.start()) else {
        return;
    };
    let mut chaos = Chaos {
        rng: Rng::with_seed(seed),
        ensemble,
        begun: Instant::now(),
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    for number in 0.. {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        chaos.round(number, ROUND.min(left));
    }
}

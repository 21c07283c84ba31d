//! `zoarium.sessionSecretFile`: its rounds lose no session, and a member with another file is
//! detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Holders, Load, check};
use tests::{Flavour, RawSession, or_skip, wait_for};

use crate::sessions::{LIMIT, LONG_MS, try_open};

const PROGRESS: u64 = 10;
/// Contents of the file in each round: roll-in, rotation, roll-out.
const ROUNDS: [[&str; 3]; 3] = [
    ["legacy A", "A legacy", "A"],
    ["A B", "B A", "B"],
    ["B legacy", "legacy B", ""],
];

/// Writes the file of a member. A letter stands for a secret.
fn write(path: &Path, lines: &str) {
    let lines = lines.split(' ').filter(|line| !line.is_empty());
    let lines = lines.map(|line| match line {
        "legacy" => "legacy\n".to_owned(),
        letter => letter.repeat(40) + "\n",
    });
    fs::write(path, lines.collect::<String>()).expect("write a file of secrets");
}

/// Sets or removes the key of a member, for its next start.
fn name(ensemble: &Ensemble, id: u64, file: Option<&Path>) {
    let path = ensemble.member(id).config_file();
    let text = fs::read_to_string(&path).expect("a configuration");
    let kept = text
        .lines()
        .filter(|line| !line.starts_with("zoarium.sessionSecretFile="));
    let line = file.map(|file| format!("zoarium.sessionSecretFile={}", file.display()));
    let lines: Vec<String> = kept.map(str::to_owned).chain(line).collect();
    fs::write(&path, lines.join("\n") + "\n").expect("write a configuration");
}

struct Rounds {
    ensemble: Ensemble,
    files: Vec<PathBuf>,
    /// A session that moves from member to member.
    moved: RawSession,
}

impl Rounds {
    /// Restarts every member with these lines in its file, the leader last.
    fn round(&mut self, lines: &str, load: &Load, holders: &mut Holders) {
        let leader = self.ensemble.wait_until_all_serve();
        let mut order = self.ensemble.ids();
        order.retain(|id| *id != leader);
        order.push(leader);
        for id in order {
            self.ensemble.member_mut(id).terminate();
            self.configure(id, lines);
            self.ensemble.start(id);
            self.ensemble.wait_until_all_serve();
            self.visit_all();
            load.wait_for_progress(PROGRESS);
        }
        holders.check();
    }

    fn configure(&self, id: u64, lines: &str) {
        let file = &self.files[usize::try_from(id).expect("a small id") - 1];
        write(file, lines);
        name(&self.ensemble, id, (!lines.is_empty()).then_some(file));
    }

    /// Moves the session to each member in turn, also in the middle of a round.
    fn visit_all(&mut self) {
        let before = self.moved.session().id;
        for id in self.ensemble.ids() {
            let moved = try_open(&self.ensemble, id, Some(&self.moved), LONG_MS);
            self.moved = moved.unwrap_or_else(|error| panic!("lost at member {id}: {error}"));
            assert_eq!(self.moved.session().id, before);
        }
    }
}

#[test]
fn secrets_are_rolled_in_rotated_and_rolled_out_under_load_and_no_session_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
    let Some(ensemble) = or_skip("three of ours", builder.start()) else {
        return;
    };
    let addresses = ensemble.addresses(&ensemble.ids());
    let load = Load::start(&addresses);
    let mut holders = Holders::open(&addresses, Duration::from_secs(30));
    let moved = RawSession::open(&addresses[0], None, LONG_MS).expect("a session");
    let public = moved.session().clone();
    let files = (1..=3)
        .map(|id| dir.path().join(format!("secrets{id}")))
        .collect();
    let mut rounds = Rounds {
        ensemble,
        files,
        moved,
    };
    for lines in ROUNDS[0] {
        rounds.round(lines, &load, &mut holders);
    }
    // The password that follows from the id by the public formula is no longer valid.
    assert_eq!(public.id, rounds.moved.session().id);
    assert_ne!(public.password, rounds.moved.session().password);
    let stolen = RawSession::open(&addresses[1], Some(&public), LONG_MS);
    assert!(stolen.is_err(), "{:?}", stolen.map(|_| ()));
    rounds.visit_all();
    for lines in ROUNDS[1].into_iter().chain(ROUNDS[2]) {
        rounds.round(lines, &load, &mut holders);
    }
    assert_eq!(public.password, rounds.moved.session().password);
    holders.close();
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&rounds.ensemble, &report);
}

/// The members need separate addresses, because they query each other on their own admin port.
#[test]
fn a_member_with_different_secrets_is_reported_and_refuses_sessions() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("admin.enableServer", "true")
        .setting("admin.serverPort", "8080")
        .in_network(3);
    let Some(mut ensemble) = or_skip("network namespaces", builder.prepare()) else {
        return;
    };
    for (id, lines) in [(1, "A"), (2, "A"), (3, "B")] {
        let file = dir.path().join(format!("secrets{id}"));
        write(&file, lines);
        name(&ensemble, id, Some(&file));
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let host = |id| ensemble.member(id).client_address().ip().to_string();
    for (at, of) in [(1, 3), (2, 3), (3, 1), (3, 2)] {
        let host = host(of);
        wait_for("the warning", LIMIT, || {
            let log = ensemble.member(at).log();
            let mut lines = log.lines();
            let is_it = |line: &str| {
                line.contains("a different zoarium.sessionSecretFile") && line.contains(&host)
            };
            lines.any(is_it).then_some(())
        });
    }
    wait_for("the metric", LIMIT, || {
        let count = ensemble
            .member(1)
            .metric("zoarium_session_secrets_differ")?;
        (count.parse::<u64>().ok()? > 0).then_some(())
    });
    let session = try_open(&ensemble, 1, None, LONG_MS).expect("a session");
    let session = try_open(&ensemble, 2, Some(&session), LONG_MS).expect("the same session");
    assert!(try_open(&ensemble, 3, Some(&session), LONG_MS).is_err());
    assert!(!ensemble.member(1).log().contains(&"A".repeat(40)));
}

//! Writes as long as a raised `jute.maxbuffer` permits, on each path through an ensemble and
//! through its files.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proto::request::{Request, flags};
use proto::response::GetDataResponse;
use tests::ensemble::{Ensemble, EnsembleBuilder, SETTLE_LIMIT};
use tests::requests::{create, delete, get_data, set_data};
use tests::{Flavour, RawSession, ServerBuilder, handshake, or_skip, wait_for};

/// 32 MiB.
const MAX_BUFFER: &str = "33554432";
/// Longer than a server accepts without the property, and the longest that this one accepts.
const LONG: usize = 9_000_000;
const LONGEST: usize = 20_000_000;
/// Limit of a server without the property: `jute.maxbuffer` and its extra size.
const LIMIT: usize = 2 * 0xf_ffff;

/// Observer that learns from the leader.
const OBSERVER: u64 = 4;
/// Observer that learns from a follower.
const OBSERVER_OF_FOLLOWER: u64 = 5;

/// Starts three voters and two observers. The members have separate addresses, because
/// `observerMasterPort` is one port for all.
fn ensemble(flavour: Flavour) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[flavour; 3])
        .observers(&[flavour; 2])
        .setting("observerMasterPort", "2191")
        // Many concurrent long writes keep a slow machine busy for seconds.
        .setting("initLimit", "100")
        .setting("syncLimit", "100")
        .property("jute.maxbuffer", MAX_BUFFER)
        // A learner receives the missing writes from the log, however long they are.
        .property("zookeeper.snapshotSizeFactor", "0")
        .in_network(5);
    let mut ensemble = or_skip("long writes through an ensemble", builder.prepare())?;
    let file = ensemble.member(OBSERVER).config_file();
    let text = fs::read_to_string(&file).expect("read zoo.cfg");
    let text = text.replace("observerMasterPort=2191\n", "");
    fs::write(file, text).expect("write zoo.cfg");
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some(ensemble)
}

fn open(address: &str) -> RawSession {
    let handshake = handshake(600_000).with_frame_bytes_max(64 << 20);
    RawSession::with_handshake(address, &handshake).expect("a session")
}

/// Returns data in which no two parts of less than 64 kB are equal.
fn data(bytes: usize) -> Bytes {
    let numbers = (0..u16::MAX).flat_map(u16::to_le_bytes);
    let block: Vec<u8> = numbers.collect();
    let mut data = block.repeat(bytes / block.len() + 1);
    data.truncate(bytes);
    data.into()
}

fn write(session: &mut RawSession, request: proto::request::WriteRequest) {
    let answer = session.call(&Request::Write(request));
    assert_eq!(answer.map(|answer| answer.err), Ok(0));
}

/// Checks a znode's data on a member. A failure does not print the data.
fn assert_has(session: &mut RawSession, path: &str, bytes: usize) {
    assert_eq!(session.sync().map(|answer| answer.err), Ok(0));
    let answer = session.call(&get_data(path)).expect("an answer");
    assert_eq!(answer.err, 0, "{path}");
    let found: GetDataResponse = answer.record();
    let found = found.data.unwrap_or_default();
    assert_eq!(found.len(), bytes, "{path}");
    assert!(found == data(bytes), "{path} has other bytes");
}

fn assert_all_have(ensemble: &Ensemble, znodes: &[(&str, usize)]) {
    for address in ensemble.addresses(&ensemble.up()) {
        let mut session = open(&address);
        for (path, bytes) in znodes {
            assert_has(&mut session, path, *bytes);
        }
    }
}

/// Returns the newest log of a server, the offset of its last record, and the length of the
/// payload.
fn last_record(data_dir: &Path) -> (PathBuf, u64, u32) {
    let logs = fs::read_dir(data_dir.join("version-2")).expect("list the logs");
    let logs = logs.map(|entry| entry.expect("an entry").path());
    let zxid = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("log.")?;
        u64::from_str_radix(name, 16).ok()
    };
    let newest = logs.filter(|path| zxid(path).is_some()).max_by_key(zxid);
    let path = newest.expect("a log");
    let bytes = fs::read(&path).expect("read the log");
    let (mut at, mut last) = (16, (0, 0));
    while let Some(len) = bytes.get(at + 8..).and_then(|rest| rest.first_chunk()) {
        let len = u32::from_be_bytes(*len);
        if len == 0 {
            break;
        }
        last = (at as u64, len);
        at += 13 + len as usize;
    }
    (path, last.0, last.1)
}

/// Adds 4 to the length field of the last record, which must be longer than `least`.
fn damage_last_record(data_dir: &Path, least: usize) -> PathBuf {
    let (path, offset, len) = last_record(data_dir);
    assert!(len as usize > least, "the last record has {len} bytes");
    let file = fs::OpenOptions::new().write(true).open(&path);
    let wrong = (len + 4).to_be_bytes();
    let written = file.and_then(|file| file.write_all_at(&wrong, offset + 8));
    written.expect("change the log");
    path
}

#[test]
fn long_writes_pass_everywhere() {
    let Some(mut ensemble) = ensemble(Flavour::under_test()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let follower = (1..=3).find(|id| *id != leader).expect("a follower");
    wait_for("an observer behind a follower", SETTLE_LIMIT, || {
        let master = ensemble
            .member(OBSERVER_OF_FOLLOWER)
            .metric("observer_master_id")?;
        (master != leader.to_string()).then_some(())
    });

    // A write passes through each kind of member, and the next one in the list receives it, too.
    let address = |id: u64| ensemble.member(id).client_address().to_string();
    let ways = [leader, follower, OBSERVER, OBSERVER_OF_FOLLOWER];
    let mut sessions = ways.map(|id| open(&address(id)));
    for (index, id) in ways.into_iter().enumerate() {
        for bytes in [1, LIMIT, LIMIT + 1, LONG, LONGEST] {
            let path = format!("/of-{id}");
            let request = create(&path, data(bytes), flags::PERSISTENT);
            write(&mut sessions[index], request);
            assert_has(&mut sessions[index], &path, bytes);
            assert_has(&mut sessions[(index + 1) % ways.len()], &path, bytes);
            write(&mut sessions[index], delete(&path, -1));
        }
    }

    // A follower that was down receives the missing writes from the log. An observer without data
    // receives a snapshot.
    ensemble.member_mut(follower).kill();
    ensemble.member_mut(OBSERVER).kill();
    let files = ensemble.member(OBSERVER).data_dir().join("version-2");
    fs::remove_dir_all(files).expect("remove an observer's data");
    let mut session = open(&ensemble.member(leader).client_address().to_string());
    write(&mut session, create("/long", "", flags::PERSISTENT));
    write(&mut session, set_data("/long", data(LONG), -1));
    write(
        &mut session,
        create("/longest", data(LONGEST), flags::PERSISTENT),
    );
    let syncs = |ensemble: &Ensemble, name: &str| -> u64 {
        let value = ensemble.member(leader).metric(name).expect("a metric");
        value.parse().expect("a number")
    };
    let (diffs, snaps) = (
        syncs(&ensemble, "diff_count"),
        syncs(&ensemble, "snap_count"),
    );
    ensemble.start(follower);
    ensemble.wait_until_all_serve();
    assert_eq!(syncs(&ensemble, "diff_count"), diffs + 1);
    ensemble.start(OBSERVER);
    ensemble.wait_until_all_serve();
    assert_eq!(syncs(&ensemble, "snap_count"), snaps + 1);
    assert_all_have(&ensemble, &[("/long", LONG), ("/longest", LONGEST)]);

    // All of them read their files. One of them finds its last record corrupt, which it has
    // acknowledged.
    let mut reader = open(&ensemble.member(follower).client_address().to_string());
    write(&mut session, set_data("/long", data(LONG + 1), -1));
    assert_has(&mut reader, "/long", LONG + 1);
    for id in ensemble.ids() {
        ensemble.member_mut(id).kill();
    }
    damage_last_record(&ensemble.member(follower).data_dir(), LONG);
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    assert_all_have(&ensemble, &[("/long", LONG + 1), ("/longest", LONGEST)]);
}

#[test]
fn an_acknowledged_long_write_is_not_lost_silently() {
    let builder = ServerBuilder::new(Flavour::Zoarium).property("jute.maxbuffer", "6500000");
    let mut server = builder.start().expect("a server");
    let mut session = open(&server.address());
    write(
        &mut session,
        create("/long", data(2_200_000), flags::PERSISTENT),
    );
    drop(session);
    server.kill();
    let damaged = damage_last_record(server.data_dir(), 2_200_000);
    let refusal = server.launch().expect_err("a start with a damaged log");
    let name = damaged.file_name().expect("a name").to_string_lossy();
    assert!(refusal.log.contains(&*name), "{}", refusal.log);
}

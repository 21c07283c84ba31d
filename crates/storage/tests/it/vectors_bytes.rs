//! Files written by Java are reproduced byte for byte when they are rewritten.
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{log_path, open};
use jute::{Decode, Encode, Reader};
use proto::Zxid;
use proto::txn::TxnRecord;
use serde_json::Value;
use testkit::vectors::{self, number};
use zoarium_storage::log::scan::{LogScanner, Scanned};
use zoarium_storage::{
    Compression, LogSettings, LogWriter, RealDisk, SnapshotTrailer, SnapshotWriter, list_snapshots,
    read_snapshot,
};

/// Compares a record with its recorded row.
fn compare_record(row: &Value, offset: u64, payload: &[u8], checksum: i64, at: &str) {
    let record = TxnRecord::decode(&mut Reader::new(payload.to_vec())).unwrap();
    let header = &record.header;
    for (field, value) in [
        ("offset", offset.cast_signed()),
        ("length", payload.len().try_into().unwrap()),
        ("adler32", checksum),
        ("clientId", header.session.0),
        ("cxid", header.cxid.into()),
        ("zxid", header.zxid.0),
        ("time", header.time_ms),
        ("type", header.op.into()),
    ] {
        assert_eq!(value, number(&row[field]), "{at}: {field}");
    }
    match &row["digest"] {
        Value::Null => assert_eq!(record.digest, None, "{at}"),
        digest => {
            let ours = record.digest.unwrap_or_else(|| panic!("{at}: no digest"));
            assert_eq!(ours.digest, number(&digest["tree"]), "{at}");
            assert_eq!(i64::from(ours.version), number(&digest["version"]), "{at}");
        }
    }
    assert_eq!(record.to_bytes(), payload, "{at}: encoded again");
}

#[test]
fn every_log_decodes_to_the_recorded_rows_and_encodes_to_the_same_bytes() {
    let mut compared = 0;
    for (name, vector) in vectors::all() {
        let Some(logs) = vector.expected["logs"].as_object() else {
            continue;
        };
        for (file, rows) in logs {
            let path = vector.dir.join(file);
            if !path.is_file() {
                continue;
            }
            let mut scanner = LogScanner::open(&RealDisk, &path, testkit::LIMITS).unwrap();
            let (last, rows) = rows.as_array().unwrap().split_last().unwrap();
            for row in rows {
                let at = format!("{name}/{file}: zxid {}", row["zxid"]);
                let Scanned::Record(raw) = scanner.next_record().unwrap() else {
                    panic!("{at}: missing");
                };
                assert!(raw.is_intact(), "{at}");
                compare_record(row, raw.offset, &raw.payload, raw.stored, &at);
                compared += 1;
            }
            assert!(matches!(scanner.next_record().unwrap(), Scanned::Stop(_)));
            assert_eq!(scanner.position().cast_signed(), number(&last["end"]));
            assert_eq!(scanner.file_bytes().cast_signed(), number(&last["size"]));
        }
    }
    assert!(vectors::root().is_none() || compared > 1000, "{compared}");
}

/// Rewrites the records of a log with the settings of its writer.
fn written_again(original: &Path, settings: LogSettings) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
    let mut scanner = LogScanner::open(&RealDisk, original, testkit::LIMITS).unwrap();
    let mut first = None;
    while let Scanned::Record(raw) = scanner.next_record().unwrap() {
        let zxid = i64::from_be_bytes(raw.payload[12..20].try_into().unwrap());
        first.get_or_insert(zxid);
        writer.append(Zxid(zxid), &raw.payload).unwrap();
        writer.commit().unwrap();
    }
    fs::read(log_path(&dirs, first.unwrap())).unwrap()
}

#[test]
fn logs_written_one_by_one_are_the_same_files() {
    let mut compared = 0;
    for (name, vector) in vectors::all() {
        for path in vectors::files(&vector.dir, "log.") {
            let original = fs::read(&path).unwrap();
            // 8 KiB of preallocation unless the vector specifies another size.
            let prealloc_kb = match (name.as_str(), original.len()) {
                ("fuzzy", _) => 64,
                (_, 8208 | 16400) => 8,
                _ => 0,
            };
            if name == "log-damaged" && path.ends_with("torn-then-written/version-2/log.1") {
                continue;
            }
            let settings = LogSettings {
                prealloc_bytes: prealloc_kb * 1024,
                ..LogSettings::new(testkit::LIMITS)
            };
            let ours = written_again(&path, settings);
            assert!(ours == original, "{name}: {}", path.display());
            compared += 1;
        }
    }
    assert!(vectors::root().is_none() || compared >= 30, "{compared}");
}

/// Returns the uncompressed content of a snapshot after its header, decoded without Zoarium's
/// decoders.
fn body(file: &zoarium_storage::SnapshotFile) -> Vec<u8> {
    let content = fs::read(&file.path).unwrap();
    let plain = match file.compression {
        Compression::None => content,
        Compression::Gzip => {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&content[..]), &mut plain)
                .unwrap();
            plain
        }
        Compression::Snappy => {
            let mut rest = &content[16..];
            let mut plain = Vec::new();
            while let Some((len, tail)) = rest.split_first_chunk() {
                let len = usize::try_from(i32::from_be_bytes(*len)).unwrap();
                plain.extend(
                    snap::raw::Decoder::new()
                        .decompress_vec(&tail[..len])
                        .unwrap(),
                );
                rest = &tail[len..];
            }
            plain
        }
    };
    plain[16..].to_vec()
}

#[test]
fn snapshots_fed_the_same_stream_are_the_same_files() {
    let mut compared = 0;
    for (name, vector) in vectors::all() {
        for path in vectors::files(&vector.dir, "snapshot.") {
            let dir = path.parent().unwrap();
            let file = list_snapshots(&RealDisk, dir)
                .unwrap()
                .into_iter()
                .find(|file| file.path == path)
                .unwrap();
            let mut db = crate::common::db::Db::default();
            let info = read_snapshot(&RealDisk, &file, testkit::LIMITS, &mut db).unwrap();
            let trailer_bytes =
                13 + info.digest.map_or(0, |_| 33) + info.last_zxid.map_or(0, |_| 21);
            let stream = body(&file);
            let content = &stream[..stream.len() - trailer_bytes];
            for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
                let temp = tempfile::tempdir().unwrap();
                let dirs = open(temp.path());
                let disk = Arc::new(RealDisk);
                let mut writer =
                    SnapshotWriter::new(disk, &dirs, file.zxid, compression, true).unwrap();
                for piece in content.chunks(1000) {
                    writer.write(piece).unwrap();
                }
                let written = writer
                    .finish(SnapshotTrailer::new(
                        info.digest.map(|digest| (digest.zxid, digest.digest)),
                        info.last_zxid,
                    ))
                    .unwrap();
                assert_eq!(written.file_name().unwrap().to_str().unwrap(), {
                    format!("snapshot.{:x}{}", file.zxid.0, compression.suffix())
                });
                let again = list_snapshots(&RealDisk, &dirs.snap).unwrap().remove(0);
                // Compressors may produce different output for equal input.
                if compression == file.compression && compression == Compression::None {
                    assert_eq!(
                        fs::read(&written).unwrap(),
                        fs::read(&path).unwrap(),
                        "{name}"
                    );
                }
                assert!(body(&again) == stream, "{name} {compression:?}");
                let mut copy = crate::common::db::Db::default();
                let info_again =
                    read_snapshot(&RealDisk, &again, testkit::LIMITS, &mut copy).unwrap();
                assert_eq!(info_again, info, "{name}");
                assert_eq!(
                    (copy.nodes, copy.sessions),
                    (db.nodes.clone(), db.sessions.clone())
                );
                assert_eq!(
                    fs::read_dir(&dirs.snap).unwrap().count(),
                    1,
                    "nothing else stays"
                );
                compared += 1;
            }
        }
    }
    assert!(vectors::root().is_none() || compared >= 90, "{compared}");
}

#[test]
fn the_fuzzy_snapshot_records_its_range() {
    let Some(vector) = vectors::vector("fuzzy") else {
        return;
    };
    let raw = &vector.expected["raw_snapshot"];
    let file = list_snapshots(&RealDisk, &vector.dir.join("data/version-2"))
        .unwrap()
        .remove(0);
    let mut db = crate::common::db::Db::default();
    let info = read_snapshot(&RealDisk, &file, testkit::LIMITS, &mut db).unwrap();
    assert_eq!(file.zxid.0, number(&raw["name_zxid"]));
    assert_eq!(info.covers(), Some(Zxid(0x17f)));
    // Every path except the root's second name.
    assert_eq!(
        db.nodes.len(),
        usize::try_from(number(&raw["nodes"])).unwrap()
    );
    for (id, session) in raw["sessions"].as_object().unwrap() {
        let id = number(&Value::from(id.clone()));
        assert_eq!(i64::from(db.sessions[&id]), number(&session["timeout"]));
    }
}

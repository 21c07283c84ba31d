use std::path::Path;

use storage::{Disk, DiskFile};

use super::*;
use crate::Random;

fn path(name: &str) -> PathBuf {
    Path::new("/data").join(name)
}

fn write(disk: &SimDisk, name: &str, content: &[u8]) -> SimFile {
    let file = disk.create(&path(name)).unwrap();
    file.write_all_at(0, content).unwrap();
    file
}

/// Returns the possible contents of a file after a power failure, from many attempts.
fn left(disk: &SimDisk, name: &str, loses_sectors: bool) -> BTreeSet<Option<Vec<u8>>> {
    let mut random = Random::new(1);
    let disks = (0..200).map(|_| disk.after_power_loss(&mut random, loses_sectors));
    disks.map(|after| after.content(&path(name))).collect()
}

#[test]
fn synced_bytes_remain_and_others_may_be_cut_anywhere() {
    let disk = SimDisk::default();
    let file = write(&disk, "a", b"12");
    file.sync_data().unwrap();
    disk.sync_dir(&path("")).unwrap();
    file.write_all_at(2, b"34").unwrap();
    let left = left(&disk, "a", false);
    assert_eq!(disk.synced_only().content(&path("a")).unwrap(), b"12");
    write(&disk, "b", b"1").sync_data().unwrap();
    assert_eq!(disk.synced_only().names(), ["a"]);
    let expected = ["12", "123", "1234"].map(|text| Some(text.as_bytes().to_vec()));
    assert_eq!(left, expected.into());
    assert_eq!(disk.after_kill().content(&path("a")).unwrap(), b"1234");
}

#[test]
fn a_name_is_safe_when_its_own_directory_is_synced() {
    let disk = SimDisk::default();
    write(&disk, "a", b"1").sync_data().unwrap();
    disk.sync_dir(Path::new("/elsewhere")).unwrap();
    assert!(left(&disk, "a", false).contains(&None));
    disk.sync_dir(&path("")).unwrap();
    assert_eq!(left(&disk, "a", false), [Some(b"1".to_vec())].into());
}

#[test]
fn a_renamed_file_has_one_of_its_names() {
    let disk = SimDisk::default();
    write(&disk, "a", b"1").sync_data().unwrap();
    disk.sync_dir(&path("")).unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    let mut random = Random::new(1);
    let names = (0..50).map(|_| disk.after_power_loss(&mut random, false).names());
    let expected = ["a", "b"].map(|name| vec![name.to_owned()]);
    assert_eq!(names.collect::<BTreeSet<_>>(), expected.into());
}

#[test]
fn any_sector_may_be_missing() {
    let disk = SimDisk::default();
    let file = write(&disk, "a", &[0; 1024]);
    file.sync_data().unwrap();
    disk.sync_dir(&path("")).unwrap();
    file.write_all_at(0, &[1; 1024]).unwrap();
    let first_is_missing = [[0; 512], [1; 512]].concat();
    assert!(left(&disk, "a", true).contains(&Some(first_is_missing.clone())));
    assert!(!left(&disk, "a", false).contains(&Some(first_is_missing)));
}

#[test]
fn a_failed_sync_may_show_what_no_later_one_writes() {
    let disk = SimDisk::default();
    let file = write(&disk, "a", b"1");
    disk.sync_dir(&path("")).unwrap();
    disk.fail_next_sync(SyncFault::FailsAndShows);
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    assert_eq!(disk.content(&path("a")).unwrap(), b"1");
    assert_eq!(left(&disk, "a", false), [Some(vec![])].into());
}

#[test]
fn power_fails_in_the_middle_of_a_write() {
    let disk = SimDisk::default();
    let file = write(&disk, "a", b"");
    disk.die_after(1, 2);
    file.write_all_at(0, b"1").unwrap();
    assert!(file.write_all_at(1, b"2345").is_err());
    assert!(file.sync_data().is_err());
    disk.process_ends();
    assert_eq!(disk.content(&path("a")).unwrap(), b"123");
}

#[test]
fn a_disk_that_is_always_safe_loses_nothing() {
    let disk = SimDisk::always_safe([(path("a").as_path(), b"1".as_slice())]);
    assert!(disk.is_dir(&path("")));
    write(&disk, "b", b"2");
    assert_eq!(left(&disk, "a", true), [Some(b"1".to_vec())].into());
    assert_eq!(left(&disk, "b", true), [Some(b"2".to_vec())].into());
}

#[test]
fn names_of_one_directory_are_lost_without_those_of_another() {
    let disk = SimDisk::default();
    for name in ["/log/a", "/data/b"] {
        disk.create(Path::new(name)).unwrap().sync_data().unwrap();
    }
    let mut random = Random::new(1);
    let names = (0..100).map(|_| disk.after_power_loss(&mut random, false).names());
    let left: BTreeSet<Vec<String>> = names.collect();
    let expected = [vec![], vec!["a"], vec!["b"], vec!["b", "a"]];
    let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
    assert_eq!(left, expected.into());
}

#[test]
fn some_reads_fail_and_the_next_does_not() {
    let disk = SimDisk::default();
    let file = write(&disk, "a", b"1");
    disk.fail_next_reads(2);
    let mut buffer = [0; 1];
    assert!(file.read_at(0, &mut buffer).is_err());
    assert!(file.read_at(0, &mut buffer).is_err());
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 1);
    disk.fail_next_reads(2);
    disk.process_ends();
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 1);
}

#[test]
fn a_corrupt_number_is_unreadable() {
    let disk = SimDisk::default();
    write(&disk, "currentEpoch", b"7");
    let mut random = Random::new(1);
    let (there, missing) = (path("currentEpoch"), path("other"));
    assert_eq!(disk.rot_number(&[&missing], &mut random), None);
    assert!(!disk.has_rotted());
    assert_eq!(
        disk.rot_number(&[&missing, &there], &mut random),
        Some(there.clone())
    );
    assert!(disk.has_rotted());
    let content = disk.content(&there).unwrap();
    assert!(!content.iter().any(u8::is_ascii_digit));
}

//! Prepared installations on which the verdict of preflight once differed from a start.

use std::fs;
use std::os::unix::fs::symlink;

use super::installations::{Case, GO, NO_GO, WARNED, recorded, with_data};
use super::site::Site;

/// Prepares data of a member whose log and epoch files are of epoch 2.
fn with_data_of_a_member(site: &Site) {
    site.copy(&recorded("ensemble/last-leader"), "data");
    site.member("");
}

/// Prepares the state after the start of a member with corrupt files.
fn set_aside(site: &Site) {
    site.write("data/version-2/zoarium.untrusted", "damaged\n");
    site.write("data/version-2/aside.snapshot.0", "x");
}

pub(super) const FURTHER: &[Case] = &[
    Case {
        name: "files that were set aside, and nobody to get the data from",
        prepare: |site| {
            set_aside(site);
            site.alone("");
        },
        blockers: &["data-untrusted data/version-2/zoarium.untrusted"],
        ..NO_GO
    },
    Case {
        name: "files of a member that were set aside",
        prepare: |site| {
            set_aside(site);
            site.member("");
        },
        warnings: &["data-untrusted data"],
        ..WARNED
    },
    Case {
        name: "no data directory, and a setting that says there is",
        prepare: |site| site.alone("datadir.autocreate=false\n"),
        blockers: &["data-directory data"],
        ..NO_GO
    },
    Case {
        name: "an empty data directory, and a setting that says there is data",
        prepare: |site| {
            fs::create_dir(site.path("data")).unwrap();
            site.alone("datadir.autocreate=false\n");
        },
        blockers: &["data-directory data"],
        ..NO_GO
    },
    Case {
        name: "a dataLogDir that is a link to nowhere",
        prepare: |site| {
            with_data(site);
            symlink("nowhere", site.path("logs")).unwrap();
            site.alone("dataLogDir=HOME/logs\n");
        },
        blockers: &["data-directory logs"],
        ..NO_GO
    },
    Case {
        name: "a member whose currentEpoch is empty, and certain",
        prepare: |site| {
            with_data_of_a_member(site);
            site.write("data/version-2/currentEpoch", "");
        },
        warnings: &["epoch-files data"],
        notes: &["data-summary data"],
        ..WARNED
    },
    Case {
        name: "a member whose currentEpoch is empty, and not certain",
        prepare: |site| {
            with_data_of_a_member(site);
            site.write("data/version-2/currentEpoch", "");
            site.write("data/version-2/acceptedEpoch", "3");
        },
        blockers: &["epoch-files data/version-2/currentEpoch"],
        ..NO_GO
    },
    Case {
        name: "a member with two empty epoch files",
        prepare: |site| {
            with_data_of_a_member(site);
            site.write("data/version-2/currentEpoch", "");
            site.write("data/version-2/acceptedEpoch", "");
        },
        blockers: &["epoch-files data/version-2/acceptedEpoch"],
        ..NO_GO
    },
    Case {
        name: "an audit log that can be written",
        prepare: |site| {
            with_data(site);
            site.alone("audit.enable=true\nlog.dir=HOME/audit\n");
        },
        ..GO
    },
    Case {
        name: "an audit log that cannot be written",
        prepare: |site| {
            with_data(site);
            site.alone("audit.enable=true\nlog.dir=HOME/conf/zoo.cfg\n");
        },
        blockers: &["audit-log"],
        ..NO_GO
    },
    Case {
        name: "flags that nothing reads",
        prepare: |site| {
            with_data(site);
            site.alone("clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n");
            site.write("conf/java.env", UNREAD_FLAGS);
        },
        warnings: &[
            "config-no-effect conf/zoo.cfg:5",
            "config-unknown conf/java.env:2",
            "config-unknown conf/java.env:3",
            "config-no-effect conf/java.env:4",
            "config-no-effect conf/java.env:5",
            "config-no-effect conf/java.env:6",
            "config-no-effect conf/java.env:7",
        ],
        ..WARNED
    },
];

/// One flag per line, as in published files.
const UNREAD_FLAGS: &str = "\
SERVER_JVMFLAGS=
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Dquorum.auth.enableSasl=true\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Dquorum.cnxn.threads.size=20\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -DrequestTraceFile=x.log\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -DtraceFile=y.log\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Dzookeeper.tracelog.dir=logs\"
SERVER_JVMFLAGS=\"$SERVER_JVMFLAGS -Dzookeeper.ssl.client.enable=true\"
";

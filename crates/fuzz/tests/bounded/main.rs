//! Runs of each target on mutants for a bounded time.
//!
//! A failure reports the case and the command that repeats it. If the process itself dies (memory,
//! stack), the file that is printed at the start of the run contains that command.

mod memory;
mod run;

macro_rules! targets {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                run::bounded(stringify!($name));
            }
        )+

        #[test]
        fn every_target_has_a_test() {
            let tested = [$(stringify!($name)),+];
            let targets: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(targets, tested);
        }

        #[test]
        fn every_target_runs_with_coverage() {
            let manifest = include_str!("../../coverage/Cargo.toml");
            let binaries = manifest.split("[[bin]]\nname = \"").skip(1);
            let binaries: Vec<_> = binaries.filter_map(|rest| rest.split('"').next()).collect();
            assert_eq!(binaries, [$(stringify!($name)),+]);
        }
    };
}

targets! {
    handshake
    request
    multi
    reply
    transaction
    quorum_packet
    hello
    notification
    log
    snapshot
    snapshot_gzip
    snapshot_snappy
    snapshot_body
    recovery
    zoo_cfg
    membership
    flags
    jks_store
    pkcs12_store
    pem_store
    revocation_lists
    certificate_subject
    version1_certificate
    jaas
    sasl_tokens
    tree_requests
    tree_transactions
}

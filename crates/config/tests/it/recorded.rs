//! Configurations that Apache ZooKeeper 3.9.5 has loaded, and the results.
//!
//! Each line of `tests/golden/configs.tsv` contains the lines of zoo.cfg separated by `~`, the text
//! of `myid` (`-` if the file is missing), and the result of `QuorumPeerConfig.parse`.

use zoarium_config::Config;

use crate::support::Machine;

#[test]
fn recorded_configurations_have_javas_results() {
    let mut cases = 0;
    for line in include_str!("../golden/configs.tsv").lines() {
        let [zoo_cfg, my_id, outcome] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let zoo_cfg = zoo_cfg.replace('~', "\n");
        let machine = Machine::with(&zoo_cfg);
        let machine = match my_id {
            "-" => machine,
            "(empty)" => machine.file("./data/myid", ""),
            text => machine.file("./data/myid", &text.replace('~', "\n")),
        };
        let ours = match machine.load() {
            Ok(config) => summary(&config),
            Err(error) if error.exit_code == 1 => format!("ERR1 {}", error.reason),
            Err(error) => format!("ERR {}", error.reason),
        };
        assert_eq!(ours, outcome, "{zoo_cfg}");
        cases += 1;
    }
    assert!(cases > 100, "{cases}");
}

fn summary(config: &Config) -> String {
    let client = config.client.plain.as_ref();
    let mut text = format!(
        "OK tick={} min={} max={} cnxns={} port={} retain={} purge={} dist={}",
        config.tick_time_ms,
        config.sessions.min_timeout_ms,
        config.sessions.max_timeout_ms,
        config.limits.max_client_cnxns.unwrap_or(0),
        client.map_or("-".to_owned(), |client| format!(
            "{}:{}",
            client.host, client.port
        )),
        config.purge.retain,
        config.purge.interval_hours.unwrap_or(0),
        config.ensemble.is_some(),
    );
    if let Some(ensemble) = &config.ensemble {
        text.push_str(&format!(
            " init={} sync={} type={} list={} seen=-",
            ensemble.init_limit_ticks,
            ensemble.sync_limit_ticks,
            ensemble.role.java_name(),
            ensemble.membership.node_data().replace('\n', "~"),
        ));
    }
    text
}

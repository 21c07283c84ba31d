//! Test that every configuration is either accepted or refused, without a panic.

use proptest::prelude::*;
use zoarium_config::registry;

use crate::support::Machine;

fn known_name() -> impl Strategy<Value = String> {
    let names: Vec<String> = registry::all()
        .map(|key| key.name.replace('*', "1"))
        .collect();
    proptest::sample::select(names)
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,20}",
        "[0-9a-z:;|\\[\\]., /-]{0,20}",
        Just("true".to_owned()),
        Just("a:1:2;3".to_owned()),
        "\\PC{0,10}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_values_of_known_settings(
        written in proptest::collection::vec((known_name(), value()), 0..12),
        flags in proptest::collection::vec((known_name(), value()), 0..6),
        my_id in "\\PC{0,6}|[0-9]{1,3}",
    ) {
        let mut lines = String::new();
        for (name, value) in &written {
            lines.push_str(&format!("{name}={value}\n"));
        }
        let mut machine = Machine::member(&lines).file("/data/myid", &my_id);
        for (name, value) in &flags {
            machine = machine.flag(&format!("{name}={value}")).flag(&format!("zookeeper.{name}={value}"));
        }
        if let Err(error) = machine.load() {
            prop_assert!([1, 2].contains(&error.exit_code));
            prop_assert!(!error.reason.is_empty());
        }
    }

    #[test]
    fn any_text(text in "(?s).{0,200}", members in "(?s).{0,80}") {
        let machine = Machine::with(&format!("dataDir=/data\ndynamicConfigFile=/d\n{text}"));
        let _ = machine.file("/d", &members).load();
    }
}

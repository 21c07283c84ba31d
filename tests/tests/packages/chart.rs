//! `conf/helm`: the chart is linted and rendered as `helm` does it, and the rendered members are
//! started.

use std::process::Command;

use proto::request::{Request, flags};
use serde_json::Value;
use tests::requests::{create, get_data};
use tests::{RawSession, chart_renderer, http_get, or_skip, wait_for, workspace_root};

use crate::container::{Container, LIMIT};

fn render(values: &[&str]) -> Option<Result<Vec<Value>, String>> {
    let program = or_skip("the chart", chart_renderer())?;
    let mut command = Command::new(program);
    command
        .arg(workspace_root().join("conf/helm/zoarium"))
        .args(["zk", "default"])
        .args(values);
    let output = command.output().expect("run the renderer");
    if !output.status.success() {
        return Some(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Some(Ok(serde_json::from_slice(&output.stdout).expect("objects")))
}

fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.next().unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Starts members like the pods of the StatefulSet, on addresses of this machine.
fn members(set: &Value, count: usize) -> Vec<Container> {
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let variables: Vec<(String, String)> = container["env"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|variable| {
            let text = |key: &str| variable[key].as_str().expect("text").to_owned();
            (text("name"), text("value"))
        })
        .collect();
    let mut pods: Vec<Container> = (0..count).map(|_| Container::new()).collect();
    let ports: Vec<_> = (0..count)
        .map(|_| (tests::Port::take(), tests::Port::take()))
        .collect();
    let here = |name: &str, value: &str, pod: &Container| match name {
        "ZOO_SERVERS" => {
            let mut text = value.to_owned();
            for (ordinal, (quorum, election)) in ports.iter().enumerate() {
                let host =
                    format!("=zk-{ordinal}.zk-members.default.svc.cluster.local:2888:3888;2181");
                assert!(text.contains(&host), "{host} is not in {value}");
                let client = pods[ordinal].client.number();
                let (quorum, election) = (quorum.number(), election.number());
                let own = format!("=127.0.0.1:{quorum}:{election};127.0.0.1:{client}");
                text = text.replace(&host, &own);
            }
            text
        }
        "ZOO_CFG_EXTRA" => {
            let port = format!("admin.serverPort={}", pod.admin.number());
            let health = format!("zoarium.health.port={}", pod.health.number());
            let metrics = "metricsProvider.httpPort=7000";
            for wanted in ["admin.serverPort=8080", "zoarium.health.port=8081", metrics] {
                assert!(value.contains(wanted), "{value}");
            }
            value
                .replace("admin.serverPort=8080", &port)
                .replace("zoarium.health.port=8081", &health)
                .replace(metrics, "metricsProvider.httpPort=0")
        }
        // The default would make the test wait half a minute for a leader.
        "ZOO_TICK_TIME" => "500".to_owned(),
        "ZOO_CONF_DIR" => pod.path("conf").display().to_string(),
        "ZOO_DATA_DIR" | "ZOO_DATA_LOG_DIR" => pod.path("data").display().to_string(),
        _ => value.to_owned(),
    };
    let environments: Vec<Vec<(String, String)>> = (0..count)
        .map(|ordinal| {
            let own = variables
                .iter()
                .map(|(name, value)| (name.clone(), here(name, value, &pods[ordinal])));
            own.chain([("HOSTNAME".to_owned(), format!("zk-{ordinal}"))])
                .collect()
        })
        .collect();
    for (pod, environment) in pods.iter_mut().zip(&environments) {
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        pod.start(&environment, &["zkServer.sh", "start-foreground"]);
    }
    pods
}

fn serves(count: usize, tolerated: Option<u64>) {
    let Some(rendered) = render(&[&format!("replicaCount={count}")]) else {
        return;
    };
    let objects = rendered.unwrap_or_else(|error| panic!("{error}"));
    let set = object(&objects, "StatefulSet", "zk");
    assert_eq!(set["spec"]["replicas"], count);
    assert_eq!(set["spec"]["serviceName"], "zk-members");
    assert_eq!(
        object(&objects, "Service", "zk-members")["spec"]["clusterIP"],
        "None"
    );
    match tolerated {
        Some(tolerated) => {
            let budget = object(&objects, "PodDisruptionBudget", "zk");
            assert_eq!(budget["spec"]["maxUnavailable"], tolerated);
        }
        None => assert!(
            objects
                .iter()
                .all(|object| object["kind"] != "PodDisruptionBudget")
        ),
    }
    let pods = members(set, count);
    let mut modes: Vec<String> = pods.iter().map(Container::wait_until_it_serves).collect();
    modes.sort();
    let wanted = match count {
        1 => vec!["standalone".to_owned()],
        _ => {
            let mut wanted = vec!["follower".to_owned(); count - 1];
            wanted.push("leader".to_owned());
            wanted
        }
    };
    assert_eq!(modes, wanted);
    // The probes of the pod are answered.
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["port"], "health", "nobody else comes to this port");
        let path = asked["path"].as_str().expect("a path");
        for pod in &pods {
            wait_for(probe, LIMIT, || {
                (http_get(pod.health.number(), path).status == 200).then_some(())
            });
        }
    }
    let session = |pod: &Container| {
        let address = format!("127.0.0.1:{}", pod.client.number());
        RawSession::open(&address, None, 10_000).expect("a session")
    };
    let write = Request::Write(create("/from-the-first", "x", flags::PERSISTENT));
    assert_eq!(session(&pods[0]).call(&write).expect("an answer").err, 0);
    let mut last = session(pods.last().expect("a pod"));
    wait_for("the write at the last member", LIMIT, || {
        (last.call(&get_data("/from-the-first")).ok()?.err == 0).then_some(())
    });
}

#[test]
#[ignore = "runs other people's programs"]
fn a_chart_with_one_member_is_standalone() {
    serves(1, None);
}

#[test]
#[ignore = "runs other people's programs"]
fn a_chart_with_three_members_is_an_ensemble() {
    serves(3, Some(1));
}

#[test]
#[ignore = "runs other people's programs"]
fn a_chart_with_five_members_is_an_ensemble() {
    serves(5, Some(2));
}

#[test]
#[ignore = "runs other people's programs"]
fn values_are_rendered_and_invalid_ones_refused() {
    let values = [
        "persistence.logs.enabled=true",
        "persistence.storageClass=fast",
        "ports.metrics=0",
        "antiAffinity=hard",
        "updateStrategy=OnDelete",
        "extraConfig[0]=snapCount=7",
        "extraEnv[0].name=ZOARIUM_LOG",
        "extraEnv[0].value=debug",
        "podAnnotations.a=b",
    ];
    let Some(rendered) = render(&values) else {
        return;
    };
    let objects = rendered.unwrap_or_else(|error| panic!("{error}"));
    let set = object(&objects, "StatefulSet", "zk");
    let text = set.to_string();
    for wanted in [
        "snapCount=7",
        "\"datalog\"",
        "\"/datalog\"",
        "\"fast\"",
        "\"OnDelete\"",
        "requiredDuringScheduling",
        "ZOARIUM_LOG",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in {text}");
    }
    assert!(!text.contains("metrics"), "{text}");
    let refused = render(&["replicaCount=2"])
        .expect("the renderer")
        .unwrap_err();
    assert!(refused.contains("replicaCount must be odd"), "{refused}");
}

//! An operator who changes the member list.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::{Client, Options, ReconfigRequest};
use config::members::MemberRole;
use config::membership::Membership;
use proto::Sid;
use testkit::Random;
use tokio::time::{sleep, timeout};

use crate::clients::servers;
use crate::operators::settings::SUPER;
use crate::world::World;

const LIST: &str = "members agree on the member list";

/// Time after which the operator no longer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Path of the member list.
const CONFIG: &str = "/zookeeper/config";

/// Changes the member list until the clients end.
pub(crate) async fn operate(world: Arc<World>, mut random: Random) {
    while world.settings.is_reconfigurable && !world.is_over() {
        let pause_ms = random.range(500, 2 * world.settings.fault_pause_ms);
        sleep(Duration::from_millis(pause_ms.unsigned_abs())).await;
        // A change whose answer is lost may be executed or not.
        let _ = timeout(PATIENCE, change(&world, &mut random)).await;
    }
}

/// Reads the member list, after everything that is committed.
pub(crate) async fn read(client: &Client) -> client::Result<Membership> {
    client.sync("/").await?;
    let (data, _) = client.get_data(CONFIG).await?;
    let data = data.unwrap_or_default();
    let text = String::from_utf8_lossy(&data);
    Ok(Membership::parse(&text, true).unwrap_or_else(|error| panic!("{text}: {error}")))
}

async fn change(world: &World, random: &mut Random) -> client::Result<()> {
    let options = Options::new(&servers(world)).with_seed(random.any());
    let client = Client::connect(options).await?;
    client.add_auth("digest", SUPER).await?;
    let list = read(&client).await?;
    note(world, &list);
    let request = draw(world, &list, random);
    if let Some(joining) = request.joining.as_deref().and_then(id_of) {
        let mut all = world.members.lock().await;
        super::faults::start(world, &mut all, joining).await;
    }
    let (data, _) = client.reconfig(&request).await?;
    let data = data.unwrap_or_default();
    match Membership::parse(&String::from_utf8_lossy(&data), true) {
        Ok(list) => {
            world.reconfigurations.fetch_add(1, Ordering::Relaxed);
            note(world, &list);
        }
        Err(error) => world.report(LIST, &format!("{data:?}: {error}")),
    }
    client.close().await
}

/// Remembers the newest list that was read. A version has only one list.
fn note(world: &World, list: &Membership) {
    let mut known = world.list.lock();
    if known.version == list.version && !known.members.is_empty() && *known != *list {
        world.report(LIST, &format!("{list:?} instead of {known:?}"));
    }
    if known.version <= list.version {
        known.clone_from(list);
    }
}

fn id_of(line: &str) -> Option<Sid> {
    let (key, _) = line.split_once('=')?;
    key.strip_prefix("server.")?.parse().ok().map(Sid)
}

/// Draws a change that keeps at least two voters.
fn draw(world: &World, list: &Membership, random: &mut Random) -> ReconfigRequest {
    let servers: Vec<Sid> = world.settings.servers().collect();
    let server = random.pick(&servers).expect("a server");
    let role_of = |sid: &Sid| list.members.get(sid).map(|member| member.role);
    let is_voter = role_of(&server) == Some(MemberRole::Participant);
    let may_lose_voter = list.participants().count() > 2;
    let roles: &[&str] = if is_voter && !may_lose_voter {
        &["participant"]
    } else {
        &["participant", "observer"]
    };
    let role = random.pick(roles).expect("a role");
    let line = format!(
        "server.{}={}",
        server.0,
        world.settings.line_of(server, role)
    );
    let is_leaving = role_of(&server).is_some() && (!is_voter || may_lose_voter);
    let config_version = if random.percent(30) {
        i64::from_str_radix(&list.version.to_string(), 16).unwrap_or(-1)
    } else {
        -1
    };
    let nothing = ReconfigRequest {
        joining: None,
        leaving: None,
        new_members: None,
        config_version,
    };
    if is_leaving && random.percent(40) {
        let leaving = Some(server.0.to_string().into());
        return ReconfigRequest { leaving, ..nothing };
    }
    if random.percent(30) {
        let mut lines: Vec<String> = list.node_data().lines().map(str::to_owned).collect();
        let key = format!("server.{}=", server.0);
        lines.retain(|line| line.starts_with("server.") && !line.starts_with(&key));
        lines.push(line);
        let new_members = Some(lines.join(",").into());
        return ReconfigRequest {
            new_members,
            ..nothing
        };
    }
    let joining = Some(line.into());
    ReconfigRequest { joining, ..nothing }
}

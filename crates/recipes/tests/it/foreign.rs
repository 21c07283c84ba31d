//! In one queue with Curator and kazoo: whoever is inside finds nobody else there.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use client::{Client, Create};
use recipes::{Layout, Mutex, ReadWriteLock};
use tests::{Missing, java_program, or_skip, python_with_kazoo, run, source_dir};

use crate::support::{connect, server, soon, until_children};

const ROUNDS: usize = 30;
/// For a program that starts slowly, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(120);

async fn inside(client: &Client, directory: &str) {
    let witness = format!("{directory}/witness");
    let created = client.create(&witness, "", &Create::ephemeral()).await;
    created.expect("nobody else is inside");
    let number = format!("{directory}/number");
    let (data, stat) = client.get_data(&number).await.unwrap();
    let sum = number_in(data.as_deref()) + 1;
    let set = client.set_data(&number, sum.to_string(), stat.version);
    set.await.unwrap();
    client.delete(&witness, -1).await.unwrap();
}

fn number_in(data: Option<&[u8]>) -> usize {
    std::str::from_utf8(data.unwrap()).unwrap().parse().unwrap()
}

/// Two of ours and two of theirs.
async fn contend(layout: Layout, program: Vec<PathBuf>) {
    let server = server();
    let client = connect(&server.address()).await;
    let persistent = Create::persistent();
    for (path, data) in [("/c", ""), ("/c/number", "0"), ("/c/second", "")] {
        client.create(path, data, &persistent).await.unwrap();
    }
    client
        .create("/c/second/number", "0", &persistent)
        .await
        .unwrap();
    let mut theirs = Vec::new();
    for _ in 0..2 {
        let (program, address) = (program.clone(), server.address());
        theirs.push(tokio::task::spawn_blocking(move || {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]);
            command.args([&address, "/c", &ROUNDS.to_string()]);
            run(&mut command, LIMIT)
        }));
    }
    let mut ours = Vec::new();
    for _ in 0..2 {
        let client = connect(&server.address()).await;
        ours.push(tokio::spawn(async move {
            let mutex = Mutex::new(&client, "/c/lock").unwrap().with_layout(layout);
            let rw = ReadWriteLock::new(&client, "/c/rw").unwrap();
            let rw = rw.with_layout(layout);
            for _ in 0..ROUNDS {
                let guard = mutex.acquire().await.unwrap();
                inside(&client, "/c").await;
                guard.release().await.unwrap();
                let guard = rw.write().await.unwrap();
                inside(&client, "/c/second").await;
                guard.release().await.unwrap();
            }
        }));
    }
    for task in theirs {
        let printed = task.await.unwrap().unwrap();
        assert!(printed.contains("done"), "{printed}");
    }
    for task in ours {
        soon("all rounds", task).await.unwrap();
    }
    for directory in ["/c", "/c/second"] {
        let path = format!("{directory}/number");
        let (data, _) = client.get_data(&path).await.unwrap();
        assert_eq!(number_in(data.as_deref()), 4 * ROUNDS, "{path}");
    }
    until_children(&client, "/c/lock", 0).await;
    until_children(&client, "/c/rw", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_we_exclude_each_other() {
    let program = tokio::task::block_in_place(|| java_program("CuratorContender", &[], &[]));
    if let Some(program) = or_skip("Curator", program) {
        contend(Layout::Curator, program).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_we_exclude_each_other() {
    let program = || -> Result<_, Missing> {
        let script = source_dir("python").join("contend.py");
        Ok(vec![python_with_kazoo()?, script])
    };
    if let Some(program) = or_skip("kazoo", tokio::task::block_in_place(program)) {
        contend(Layout::Kazoo, program).await;
    }
}

//! Standard error without a reader: the server continues to serve, and loses no line that fits into
//! its buffer.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use client::{Client, Create, Options};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::address_in;

/// Size of the smallest possible pipe.
const PIPE_BYTES: usize = 4096;
/// Number of sessions whose lines together exceed the pipe.
const SESSIONS: usize = 200;
/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server whose standard error is a small pipe.
struct Server {
    process: Child,
    address: String,
    stderr: ChildStderr,
    _data: TempDir,
}

impl Server {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_zoarium"))
            .args(["server", "-Dzookeeper.admin.enableServer=false", "0"])
            .arg(data.path())
            .env("ZOARIUM_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = process.stderr.take().unwrap();
        fcntl_setpipe_size(stderr.as_fd(), PIPE_BYTES).unwrap();
        let mut ready = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        Self {
            process,
            address: address_in(&ready),
            stderr,
            _data: data,
        }
    }

    /// Opens sessions one after the other, each with a request, and returns their ids as the log shows them.
    async fn serve_sessions(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for number in 0..SESSIONS {
            let serve = async {
                let client = Client::connect(Options::new(&self.address)).await?;
                let path = format!("/n{number}");
                client.create(&path, "", &Create::ephemeral()).await?;
                let id = client.session_id();
                client.close().await?;
                Ok::<_, client::Error>(id)
            };
            let served = tokio::time::timeout(PATIENCE, serve).await;
            ids.push(
                served
                    .expect("the server waits for its log")
                    .unwrap()
                    .to_string(),
            );
        }
        ids
    }

    fn terminate(&self) {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }
}

#[tokio::test]
async fn a_server_serves_while_nobody_reads_its_log_and_loses_no_line() {
    let mut server = Server::start();
    let ids = server.serve_sessions().await;
    server.terminate();
    let lines = BufReader::new(server.stderr).lines();
    let text: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(server.process.wait().unwrap().success());
    for id in ids {
        let count = text.iter().filter(|line| line.contains(&id)).count();
        assert!(count > 0, "no line about session {id}");
    }
}

#[tokio::test]
async fn a_server_ends_although_its_log_is_not_read() {
    let mut server = Server::start();
    server.serve_sessions().await;
    server.terminate();
    assert!(server.process.wait().unwrap().success());
}

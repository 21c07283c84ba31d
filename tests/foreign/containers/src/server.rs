//! A server as a process.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The port within a container.
const PORT_INSIDE: &str = "2181";
const START_MAX: Duration = Duration::from_secs(120);
/// Time after which Docker kills a container that it stops.
const STOP_MAX: Duration = Duration::from_secs(10);
const MESSAGE_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
const LOGBACK: &str = r#"<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5p [%t:%C{1}] - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"#;

#[derive(Debug)]
pub(crate) struct Server {
    dir: PathBuf,
    port: u16,
    /// Whether the server answers four-letter words without TLS.
    is_plain: bool,
    flags: Vec<String>,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// Writes the files of a container.
    pub(crate) fn prepare(flags: &str, volumes: &[(String, String)], has_network_of_host: bool) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("container.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        let mut paths = volumes.to_vec();
        if !paths.iter().any(|(_, there)| there == "/data") {
            let data = dir.join("data");
            fs::create_dir_all(&data).expect("a data directory");
            paths.push((data.display().to_string(), "/data".to_owned()));
        }
        let outside = |text: &str| {
            let replace = |text: String, (here, there): &(String, String)| text.replace(there.as_str(), here);
            paths.iter().fold(text.to_owned(), replace)
        };
        let given = paths.iter().find(|(_, there)| there == "/conf/zoo.cfg");
        let mut config = match given {
            Some((here, _)) => fs::read_to_string(here).expect("a configuration"),
            // These are the lines that the entry point of the image writes.
            None => "clientPort=2181\ndataDir=/data\ninitLimit=5\nsyncLimit=2\n".to_owned(),
        };
        config = outside(&config);
        let port = if has_network_of_host { port_of_host(&config, &paths) } else { free_port() };
        config = config.replace(&format!("lientPort={PORT_INSIDE}"), &format!("lientPort={port}"));
        config += "\nadmin.enableServer=false\n";
        fs::write(dir.join("zoo.cfg"), &config).expect("write the configuration");
        fs::write(dir.join("logback.xml"), LOGBACK).expect("write logback.xml");
        let mut flags: Vec<String> = outside(flags).split_whitespace().map(str::to_owned).collect();
        flags.push(format!("-Dlogback.configurationFile={}", dir.join("logback.xml").display()));
        Self {
            is_plain: !config.contains("secureClientPort="),
            dir,
            port,
            flags,
            process: Mutex::new(None),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn start(&self) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let child = Command::new("java")
            .args(&self.flags)
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.dir.join("zoo.cfg"))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("the log again"))
            .stdout(log)
            .spawn()
            .expect("java on PATH");
        let mut process = self.process.lock().expect("no panic");
        let child = process.insert(child);
        let begun = Instant::now();
        while !self.is_healthy() {
            let log = || fs::read_to_string(self.log_path()).unwrap_or_default();
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the server has ended with {status}: {}", log());
            }
            assert!(begun.elapsed() < START_MAX, "the server is not healthy: {}", log());
            sleep(POLL);
        }
    }

    pub(crate) fn stop(&self) {
        let Some(mut child) = self.process.lock().expect("no panic").take() else {
            return;
        };
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let begun = Instant::now();
        while begun.elapsed() < STOP_MAX {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    pub(crate) fn log(&self) -> LogStream {
        let mut file = File::open(self.log_path()).expect("the log");
        file.seek(SeekFrom::End(0)).expect("its end");
        LogStream { file }
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            if !self.is_plain {
                return Ok(true);
            }
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"srvr")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<bool, io::Error>(answer.contains("Mode:"))
        };
        ask().unwrap_or(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = self.process.get_mut().expect("no panic") {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The log of a server.
#[derive(Debug)]
pub struct LogStream {
    file: File,
}

impl LogStream {
    /// Waits until the server has logged this message.
    ///
    /// # Errors
    /// If the message does not appear in time, or the log cannot be read.
    pub fn wait_for_message(mut self, message: &str) -> io::Result<()> {
        let (begun, mut seen) = (Instant::now(), String::new());
        while begun.elapsed() < MESSAGE_MAX {
            self.file.read_to_string(&mut seen)?;
            if seen.contains(message) {
                return Ok(());
            }
            sleep(POLL);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no {message:?} in {seen}")))
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Returns the client port in this server's line of the member list.
fn port_of_host(config: &str, paths: &[(String, String)]) -> u16 {
    let data = paths.iter().find(|(_, there)| there == "/data").expect("a data directory");
    let id = fs::read_to_string(PathBuf::from(&data.0).join("myid")).expect("an id");
    let begin = format!("server.{}=", id.trim());
    let line = config.lines().find(|line| line.starts_with(&begin)).expect("its line");
    let port = line.rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("a client port")
}

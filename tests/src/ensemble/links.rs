//! Bad links: packets of one direction are delayed, lost, repeated or throttled.
//!
//! A kernel without `netem` cannot do this. Therefore a program (`links.c`) carries the packets of
//! these directions in user space: rules of the hub send them to its TUN device, and it writes each
//! packet back when the packet may continue. These are real packets, so that TCP between members
//! sends lost data again, drops repeated data, and orders data that arrived late.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::command::{find_tool, run};
use crate::foreign::prepare;
use crate::skip::Missing;

const COMPILE_LIMIT: Duration = Duration::from_secs(60);
/// Name of the TUN device in the hub.
pub(super) const DEVICE: &str = "links";

/// Quality of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Delay of each packet, ms.
    pub delay_ms: u32,
    /// Maximum of an additional random delay, which changes the order of packets, ms.
    pub jitter_ms: u32,
    /// Percentage of lost packets.
    pub loss_percent: u32,
    /// Percentage of packets that arrive twice.
    pub repeat_percent: u32,
    /// Rate of the direction. 0 means no limit.
    pub bytes_per_ms: u32,
}

/// Number of packets since the last end of all shapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// All packets that were carried.
    pub packets: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Packets that waited.
    pub delayed: u64,
}

/// The program that carries packets. It ends with this value.
#[derive(Debug)]
pub(super) struct Links {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Links {
    /// Starts the program through this command, which enters the namespace of the hub.
    pub(super) fn start(mut inside: Command) -> Result<Links, Missing> {
        inside.arg(program()?).args([DEVICE, "1"]);
        inside.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = inside.spawn();
        let mut process = process.map_err(|error| Missing(format!("nsenter: {error}")))?;
        let (orders, answers) = (process.stdin.take(), process.stdout.take());
        let mut links = Links {
            orders: orders.expect("a pipe to a program"),
            answers: BufReader::new(answers.expect("a pipe from a program")),
            process,
        };
        match links.line()?.as_str() {
            "ready" => Ok(links),
            other => Err(Missing(format!("the program for links printed {other:?}"))),
        }
    }

    /// Shapes the packets between addresses with these last bytes. Returns the numbers of earlier
    /// packets.
    pub(super) fn shape(&mut self, from: u8, to: u8, shape: Shape) -> Result<Carried, Missing> {
        let Shape {
            delay_ms,
            jitter_ms,
            loss_percent,
            repeat_percent,
            bytes_per_ms,
        } = shape;
        self.order(&format!(
            "shape {from} {to} {delay_ms} {jitter_ms} {loss_percent} {repeat_percent} {bytes_per_ms}"
        ))
    }

    /// Ends all shapes.
    pub(super) fn end(&mut self) -> Result<Carried, Missing> {
        self.order("end")
    }

    fn order(&mut self, order: &str) -> Result<Carried, Missing> {
        let sent = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        sent.map_err(|error| Missing(format!("the program for links: {error}")))?;
        let line = self.line()?;
        let mut words = line.split(' ').skip(1).map(str::parse::<u64>);
        let mut number = || match words.next() {
            Some(Ok(number)) => Ok(number),
            _ => Err(Missing(format!("the program for links printed {line:?}"))),
        };
        Ok(Carried {
            packets: number()?,
            lost: number()?,
            repeated: number()?,
            delayed: number()?,
        })
    }

    fn line(&mut self) -> Result<String, Missing> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            _ => Err(Missing(
                "the program that carries packets has ended; see its output".to_owned(),
            )),
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Compiles the program.
fn program() -> Result<PathBuf, Missing> {
    let compiler = find_tool("cc")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ensemble/links.c");
    let dir = prepare("links", std::slice::from_ref(&source), |dir| {
        let mut command = Command::new(&compiler);
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]);
        command.arg(&source).arg("-o").arg(dir.join("links"));
        if let Err(failure) = run(&mut command, COMPILE_LIMIT) {
            panic!("the program for links does not compile: {failure}");
        }
        Ok(())
    })?;
    Ok(dir.join("links"))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;
    use crate::ensemble::network::{Network, OUTSIDE};
    use crate::launcher::Launcher;
    use crate::or_skip;

    /// Time limit for a datagram that must arrive.
    const ARRIVES: Duration = Duration::from_secs(20);
    const PORT: u16 = 7007;
    /// Returns each datagram, after a line that it is ready.
    const ECHO: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 7007))
print('ready', flush=True)
while True:
    data, sender = s.recvfrom(2000)
    s.sendto(data, sender)
";

    struct Bench {
        network: Network,
        echo: Child,
        socket: UdpSocket,
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            self.echo.kill().ok();
            self.echo.wait().ok();
        }
    }

    fn bench() -> Result<Bench, Missing> {
        let python = find_tool("python3")?;
        let mut network = Network::new(1)?;
        network.shape(OUTSIDE, 1, Shape::default())?;
        network.end_shapes()?;
        let script = ["-c".to_owned(), ECHO.to_owned()];
        let mut command = network
            .launcher(1, Launcher::of_program(python, script))
            .command(Path::new(""));
        let mut echo = command.stdout(Stdio::piped()).spawn().expect("an echo");
        let mut output = BufReader::new(echo.stdout.take().expect("a pipe"));
        output.read_line(&mut String::new()).expect("a line");
        let socket = UdpSocket::bind((network.address(OUTSIDE), 0)).expect("a socket");
        socket.connect((network.address(1), PORT)).expect("connect");
        socket
            .set_read_timeout(Some(ARRIVES))
            .expect("a time limit");
        Ok(Bench {
            network,
            echo,
            socket,
        })
    }

    impl Bench {
        fn send(&self, first: u8, length: usize) {
            let mut bytes = vec![0; length];
            bytes[0] = first;
            self.socket.send(&bytes).expect("send");
        }

        fn receive(&self) -> u8 {
            let mut bytes = [0; 2000];
            self.socket.recv(&mut bytes).expect("a datagram in time");
            bytes[0]
        }

        fn shape(&mut self, shape: Shape) -> Carried {
            self.network.shape(OUTSIDE, 1, shape).expect("a shape")
        }

        fn end(&mut self) -> Carried {
            self.network.end_shapes().expect("the end of all shapes")
        }
    }

    #[test]
    fn each_direction_loses_repeats_delays_and_throttles_packets() {
        // A kernel may lack these devices, as it may lack netem. No package can add them.
        if !Path::new("/dev/net/tun").exists() {
            println!("SKIPPED: this kernel has no TUN devices");
            return;
        }
        let Some(mut bench) = or_skip("bad links", bench()) else {
            return;
        };
        let lossy = Shape {
            loss_percent: 100,
            ..Shape::default()
        };
        bench.shape(lossy);
        bench.send(1, 10);
        crate::wait_for("the loss of a packet", ARRIVES, || {
            (bench.shape(lossy).lost == 1).then_some(())
        });
        bench.end();
        bench.shape(Shape {
            repeat_percent: 100,
            ..Shape::default()
        });
        bench.send(2, 10);
        assert_eq!(
            [bench.receive(), bench.receive()],
            [2, 2],
            "the first is lost"
        );
        assert_eq!(bench.end().repeated, 1);
        bench.shape(Shape {
            delay_ms: 100,
            ..Shape::default()
        });
        let sent = Instant::now();
        bench.send(3, 10);
        assert_eq!(bench.receive(), 3);
        assert!(sent.elapsed() >= Duration::from_millis(100));
        assert_eq!(bench.end().delayed, 1);
        bench.shape(Shape {
            bytes_per_ms: 10,
            ..Shape::default()
        });
        let sent = Instant::now();
        for number in 4..6 {
            bench.send(number, 1000);
        }
        assert_eq!([bench.receive(), bench.receive()], [4, 5]);
        assert!(sent.elapsed() >= Duration::from_millis(200));
        bench.end();
        bench.send(6, 10);
        assert_eq!(bench.receive(), 6);
        let carried = bench.end();
        assert_eq!(
            carried,
            Carried::default(),
            "without a shape, the kernel forwards"
        );
    }
}

//! A network in which every member has a separate namespace and address. It can be cut between any
//! two members, in one direction or both.
//!
//! ```text
//!   this process            hub (routes between them)         members
//!   10.213.n.2  ----------  10.213.n.1  -------------------  10.213.n.11
//!                               \--------------------------  10.213.n.12 ...
//! ```
//!
//! A cut is a routing rule of the hub that silently drops packets from one address to another, as a
//! broken cable would. Each namespace lives as long as an idle process that reads from a pipe of
//! this process. Therefore nothing of the network remains even if this process is killed.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::links::{Carried, DEVICE, Links, Shape};
use crate::command::{find_tool, run};
use crate::launcher::Launcher;
use crate::skip::Missing;
use crate::wait::wait_until;

/// Time limit for one command about the network.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of concurrent networks on a machine.
const NETWORKS: u8 = 200;
/// First address of members, after the addresses of the hub and of this process.
const FIRST_MEMBER: u8 = 10;
/// Routing table of shaped directions in the hub.
const TABLE: u8 = 100;
/// Member id that represents this process.
pub const OUTSIDE: u64 = 0;

/// A network for members 1 to some number, intact until it is cut.
#[derive(Debug)]
pub struct Network {
    tools: Tools,
    number: u8,
    hub: Namespace,
    members: Vec<Namespace>,
    cuts: BTreeSet<(u64, u64)>,
    /// The program that carries packets of shaped directions, from the first shape on.
    links: Option<Links>,
    shaped: BTreeSet<(u64, u64)>,
    _lock: File,
}

#[derive(Debug, Clone)]
struct Tools {
    ip: PathBuf,
    nsenter: PathBuf,
    unshare: PathBuf,
    sysctl: PathBuf,
    cat: PathBuf,
}

/// A network namespace that ends with the process that keeps it.
#[derive(Debug)]
struct Namespace {
    keeper: Child,
}

impl Namespace {
    fn new(tools: &Tools) -> Result<Namespace, Missing> {
        let mut command = Command::new(&tools.unshare);
        command.args(["--net", "--"]).arg(&tools.cat);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let keeper = command.spawn();
        let keeper = keeper.map_err(|error| Missing(format!("unshare: {error}")))?;
        let mut namespace = Namespace { keeper };
        let ours = std::fs::read_link("/proc/self/ns/net").ok();
        // After exec, the process is in its namespace.
        let is_apart = || {
            let process = PathBuf::from(format!("/proc/{}", namespace.keeper.id()));
            let network = std::fs::read_link(process.join("ns/net")).ok();
            let name = std::fs::read_to_string(process.join("comm")).ok()?;
            (network.is_some() && network != ours && name.trim() == "cat").then_some(())
        };
        if wait_until(COMMAND_LIMIT, is_apart).is_none() {
            let ended = namespace.keeper.try_wait();
            return Err(Missing(format!(
                "no network namespace of our own: {ended:?}"
            )));
        }
        Ok(namespace)
    }

    /// Returns its file, for commands that enter it.
    fn file(&self) -> String {
        format!("/proc/{}/ns/net", self.keeper.id())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The process is idle. Its end is the end of the namespace and its contents.
        self.keeper.kill().ok();
        self.keeper.wait().ok();
    }
}

impl Tools {
    fn find() -> Result<Tools, Missing> {
        Ok(Tools {
            ip: find_tool("ip")?,
            nsenter: find_tool("nsenter")?,
            unshare: find_tool("unshare")?,
            sysctl: find_tool("sysctl")?,
            cat: find_tool("cat")?,
        })
    }

    /// Runs `ip` with these words, in this namespace or in another one.
    fn ip(&self, inside: Option<&Namespace>, words: &str) -> Result<(), Missing> {
        let mut command = match inside {
            None => Command::new(&self.ip),
            Some(namespace) => {
                let mut command = Command::new(&self.nsenter);
                command.arg(format!("--net={}", namespace.file()));
                command.arg("--").arg(&self.ip);
                command
            }
        };
        command.args(words.split_whitespace());
        run(&mut command, COMMAND_LIMIT).map(drop).map_err(Missing)
    }

    fn sysctl(&self, inside: &Namespace, setting: &str) -> Result<(), Missing> {
        let mut command = Command::new(&self.nsenter);
        command.arg(format!("--net={}", inside.file()));
        command.arg("--").arg(&self.sysctl).args(["-q", setting]);
        run(&mut command, COMMAND_LIMIT).map(drop).map_err(Missing)
    }
}

impl Network {
    /// Creates a network for `members` members.
    ///
    /// # Errors
    /// [`Missing`] if the tools are not installed, or namespaces are not permitted.
    pub fn new(members: u8) -> Result<Network, Missing> {
        Network::with_number(members, None)
    }

    /// Creates a network with this number, or with any free number.
    ///
    /// # Errors
    /// Under the conditions of [`new`](Self::new), and if the number is in use.
    pub fn with_number(members: u8, number: Option<u8>) -> Result<Network, Missing> {
        let tools = Tools::find()?;
        let (number, lock) = match number {
            Some(number) => (number, take_this_number(number)?),
            None => take_number()?,
        };
        let hub = Namespace::new(&tools)?;
        for setting in [
            "net.ipv4.ip_forward=1",
            // Packets of a member that is cut in one direction keep their source address.
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.conf.default.rp_filter=0",
        ] {
            tools.sysctl(&hub, setting)?;
        }
        tools.ip(Some(&hub), "link set lo up")?;
        let mut network = Network {
            tools,
            number,
            hub,
            members: Vec::new(),
            cuts: BTreeSet::new(),
            links: None,
            shaped: BTreeSet::new(),
            _lock: lock,
        };
        network.join_outside()?;
        for _ in 0..members {
            network.join_member()?;
        }
        Ok(network)
    }

    /// Returns its number, which is a part of all its addresses.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the address of a member.
    pub fn address(&self, id: u64) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, last_byte(id))
    }

    fn hub_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number, 1)
    }

    fn hub_ip(&self, words: &str) -> Result<(), Missing> {
        self.tools.ip(Some(&self.hub), words)
    }

    /// Connects this process's namespace to the hub.
    fn join_outside(&self) -> Result<(), Missing> {
        let (hub, ours) = (self.hub_address(), self.address(OUTSIDE));
        let (name, keeper) = (outside_name(self.number), self.hub.keeper.id());
        let outside = |words: String| self.tools.ip(None, &words);
        outside(format!(
            "link add {name} type veth peer name outside netns {keeper}"
        ))?;
        self.hub_ip(&format!("address add {hub}/32 dev outside"))?;
        self.hub_ip("link set outside up")?;
        self.hub_ip(&format!("route add {ours}/32 dev outside"))?;
        outside(format!("address add {ours}/32 dev {name}"))?;
        outside(format!("link set {name} up"))?;
        outside(format!("route add {hub}/32 dev {name}"))?;
        outside(format!("route add 10.213.{}.0/24 via {hub}", self.number))
    }

    /// Creates the next member's namespace and connects it to the hub.
    fn join_member(&mut self) -> Result<(), Missing> {
        let namespace = Namespace::new(&self.tools)?;
        let id = self.members.len() + 1;
        let (hub, address) = (self.hub_address(), self.address(id as u64));
        let keeper = namespace.keeper.id();
        self.hub_ip(&format!(
            "link add member{id} type veth peer name hub netns {keeper}"
        ))?;
        self.hub_ip(&format!("address add {hub}/32 dev member{id}"))?;
        self.hub_ip(&format!("link set member{id} up"))?;
        self.hub_ip(&format!("route add {address}/32 dev member{id}"))?;
        for words in [
            "link set lo up".to_owned(),
            format!("address add {address}/32 dev hub"),
            "link set hub up".to_owned(),
            format!("route add {hub}/32 dev hub"),
            format!("route add default via {hub}"),
        ] {
            self.tools.ip(Some(&namespace), &words)?;
        }
        self.members.push(namespace);
        Ok(())
    }

    /// Returns a launcher that runs a program at a member's address.
    pub(crate) fn launcher(&self, id: u64, launcher: Launcher) -> Launcher {
        let file = self.namespace(id).file();
        let arguments = [format!("--net={file}"), "--".to_owned()];
        launcher.behind(self.tools.nsenter.clone(), arguments)
    }

    fn namespace(&self, id: u64) -> &Namespace {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let found = index.and_then(|index| self.members.get(index));
        found.unwrap_or_else(|| panic!("member {id} is not of this network"))
    }

    /// Drops all packets from `from` to `to` from now on. [`OUTSIDE`] represents this process.
    pub fn cut_one_way(&mut self, from: u64, to: u64) {
        if self.cuts.insert((from, to)) {
            self.rule("add", from, to);
        }
    }

    /// Drops all packets between the two sides.
    pub fn cut(&mut self, left: &[u64], right: &[u64]) {
        for &one in left {
            for &other in right.iter().filter(|&&other| other != one) {
                self.cut_one_way(one, other);
                self.cut_one_way(other, one);
            }
        }
    }

    /// Permits packets between these members again.
    pub fn mend(&mut self, left: &[u64], right: &[u64]) {
        for &one in left {
            for &other in right {
                for (from, to) in [(one, other), (other, one)] {
                    if self.cuts.remove(&(from, to)) {
                        self.rule("del", from, to);
                    }
                }
            }
        }
    }

    /// Permits all packets again.
    pub fn heal(&mut self) {
        for (from, to) in std::mem::take(&mut self.cuts) {
            self.rule("del", from, to);
        }
    }

    /// Shapes the packets from `from` to `to` from now on. Returns the numbers of earlier packets.
    ///
    /// # Errors
    /// [`Missing`] if there is no C compiler, or the kernel does not support TUN devices.
    pub fn shape(&mut self, from: u64, to: u64, shape: Shape) -> Result<Carried, Missing> {
        if self.links.is_none() {
            self.links = Some(Links::start(self.enter_hub())?);
            self.hub_ip(&format!("link set {DEVICE} up"))?;
            self.hub_ip(&format!("route add default dev {DEVICE} table {TABLE}"))?;
        }
        let carried = match &mut self.links {
            Some(links) => links.shape(last_byte(from), last_byte(to), shape)?,
            None => Carried::default(),
        };
        if self.shaped.insert((from, to)) {
            self.through_links("add", from, to)?;
        }
        Ok(carried)
    }

    /// Ends all shapes.
    ///
    /// # Errors
    /// [`Missing`] if the program that carries packets has ended.
    pub fn end_shapes(&mut self) -> Result<Carried, Missing> {
        for (from, to) in std::mem::take(&mut self.shaped) {
            self.through_links("del", from, to)?;
        }
        let ended = self.links.as_mut().map(Links::end);
        if let Some(Err(_)) = &ended {
            // The next shape starts the program again.
            self.links = None;
        }
        ended.unwrap_or_else(|| Ok(Carried::default()))
    }

    /// Sends packets of this direction through the program, or no longer.
    fn through_links(&self, verb: &str, from: u64, to: u64) -> Result<(), Missing> {
        // Packets that come from the program arrive at another device, and continue.
        let device = match from {
            OUTSIDE => "outside".to_owned(),
            id => format!("member{id}"),
        };
        let (from, to) = (self.address(from), self.address(to));
        self.hub_ip(&format!(
            "rule {verb} iif {device} from {from} to {to} lookup {TABLE}"
        ))
    }

    fn enter_hub(&self) -> Command {
        let mut command = Command::new(&self.tools.nsenter);
        command.arg(format!("--net={}", self.hub.file())).arg("--");
        command
    }

    fn rule(&self, verb: &str, from: u64, to: u64) {
        let (from, to) = (self.address(from), self.address(to));
        let rule = format!("rule {verb} from {from} to {to} blackhole");
        if let Err(missing) = self.hub_ip(&rule) {
            panic!("a working network does not change: {missing}");
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // It would disappear with the hub, but only a moment later.
        let words = format!("link delete {}", outside_name(self.number));
        self.tools.ip(None, &words).ok();
    }
}

/// Returns the last byte of the address of a member.
fn last_byte(id: u64) -> u8 {
    match u8::try_from(id) {
        Ok(0) => 2,
        Ok(id) => FIRST_MEMBER + id,
        Err(_) => panic!("member {id} has no address"),
    }
}

/// Returns the name of this process's end of the link to the hub.
fn outside_name(number: u8) -> String {
    format!("zoarium{number}")
}

/// Takes a network number that no other test of this machine uses.
fn take_number() -> Result<(u8, File), Missing> {
    for number in 0..NETWORKS {
        if let Some(lock) = try_take(number)? {
            return Ok((number, lock));
        }
    }
    Err(Missing(format!("all {NETWORKS} networks are in use")))
}

/// Takes this number.
fn take_this_number(number: u8) -> Result<File, Missing> {
    let taken = wait_until(COMMAND_LIMIT, || try_take(number).transpose());
    taken.unwrap_or_else(|| Err(Missing(format!("the network {number} is in use"))))
}

/// Takes this number unless another test uses it.
fn try_take(number: u8) -> Result<Option<File>, Missing> {
    let dir = std::env::temp_dir().join("zoarium-test-networks");
    let failed = |error| Missing(format!("{}: {error}", dir.display()));
    // The link of a killed process disappears a moment after the process.
    if PathBuf::from(format!("/sys/class/net/{}", outside_name(number))).exists() {
        return Ok(None);
    }
    std::fs::create_dir_all(&dir).map_err(failed)?;
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(number.to_string()))
        .map_err(failed)?;
    let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_ours.then_some(lock))
}

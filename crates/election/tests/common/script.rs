//! The commands of election scripts.
//!
//! ```text
//! server 1 list=1,2,3 [proposed=1,2,3,4] [observer] [zxid=10|none] [epoch=1] [guard=off] [reconfig] [version=5]
//!        [zero=1,2] [groups=1,2,3/4,5,6]        a server that is not running yet
//! boot 1                     a process that has not begun its first round yet
//! start 1 2 [zxid=12]        begins a round, after a process started or a role ended
//! up 1 from=9                1 sees a new connection to 9
//! refused 1 2 from=9         9 refuses the connections of 1 and 2
//! crash 2                    the process stops, and messages to it are lost
//! cut 1-4, heal 1-4          closes the connection between them; restores it
//! deliver [1>3 ...]          the oldest message in flight (without names: all in turn)
//! flow                       delivers until no message is in flight
//! wait 200                   advances time; deadlines fire, messages stay in flight
//! run 1000                   advances time; messages arrive immediately
//! active 2 epoch=1           the epoch of the new leader is established
//! hear 1 from=7 LOOKING vote=(0,5,7) round=1 [list=..] [version=..] [short]
//! oracle 1 needed|grants|gone
//! votes [1 ...]              the last vote of each voter that the server has
//! states                     the state of each server
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use proto::notification::{Form, Notification, PeerState};
use proto::quorum::{GroupId, Hierarchical, Majority};
use proto::{ConfigVersion, ElectionRound, Epoch, Sid, Zxid};
use zoarium_election::{
    Action, Candidate, Election, Electorate, MemberList, Oracle, ReceivedNotification, Role,
    Settings,
};

/// Servers, notifications in flight between them, and their output.
#[derive(Default)]
pub(crate) struct Script {
    servers: BTreeMap<Sid, Server>,
    on_the_way: VecDeque<(Sid, Sid, Notification)>,
    cuts: BTreeSet<(Sid, Sid)>,
    now_ms: i64,
    output: Vec<String>,
}

struct Server {
    words: Vec<String>,
    candidate: Candidate,
    members: MemberList,
    election: Option<Election>,
}

/// Words of the form `name=value`, and bare ones.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn value(&self, name: &str) -> Option<&'a str> {
        let mut values = self.0.iter().filter_map(|word| word.split_once('='));
        values.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.value(name).map(number)
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn sids(&self) -> impl Iterator<Item = Sid> + '_ {
        let numbers = self.0.iter().filter_map(|word| word.parse().ok());
        numbers.map(Sid)
    }
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

fn sids(text: &str) -> Vec<Sid> {
    text.split(',').map(|sid| Sid(number(sid))).collect()
}

/// Formats a list as the text of a configuration. Scripts do not need addresses.
fn config_text(members: &MemberList) -> Bytes {
    Bytes::from(members.to_string())
}

/// Parses the text, like a host.
fn read_config(text: &[u8]) -> Option<MemberList> {
    let text = std::str::from_utf8(text).ok()?;
    let (voters, version) = text.split_once(" version ")?;
    Some(MemberList {
        version: ConfigVersion(i64::from_str_radix(version, 16).ok()?),
        voters: sids(voters).into_iter().collect(),
    })
}

fn received(notification: Notification) -> ReceivedNotification {
    let members = notification.config().and_then(|text| read_config(text));
    ReceivedNotification {
        notification,
        members,
    }
}

impl Script {
    /// Returns the output since the last call.
    pub(crate) fn take_output(&mut self) -> Vec<String> {
        std::mem::take(&mut self.output)
    }

    /// Executes one command.
    pub(crate) fn run(&mut self, line: &str) {
        let mut all = line.split_whitespace();
        let command = all.next().expect("a command");
        let words = Words(all.collect());
        match command {
            "server" => self.add(&words),
            "boot" => words.sids().for_each(|sid| self.boot(sid)),
            "start" => self.start(&words),
            "up" => self.see_connection(&words),
            "refused" => self.see_refusal(&words),
            "crash" => words.sids().for_each(|sid| self.crash(sid)),
            "cut" => words.0.iter().for_each(|pair| self.cut(pair)),
            "heal" => words.0.iter().for_each(|pair| self.heal(pair)),
            "deliver" => self.deliver(&words),
            "flow" => while self.deliver_at(0) {},
            "wait" => self.pass(number(words.0[0]), false),
            "run" => self.pass(number(words.0[0]), true),
            "active" => self.activate(&words),
            "resign" => words.sids().for_each(|sid| self.resign(sid)),
            "hear" => self.hear(&words),
            "oracle" => self.query_oracle(&words),
            "votes" => self.print_votes(&words),
            "states" => self.print_states(),
            _ => panic!("no such command: {line}"),
        }
    }

    fn add(&mut self, words: &Words<'_>) {
        let sid = words.sids().next().expect("a sid");
        let version = ConfigVersion(words.number("version").unwrap_or_default());
        let voters = sids(words.value("list").expect("a list")).into_iter();
        let members = MemberList {
            version,
            voters: voters.collect(),
        };
        let zxid = match words.value("zxid") {
            Some("none") => None,
            zxid => Some(Zxid(zxid.map_or(0, number))),
        };
        let candidate = Candidate {
            zxid,
            peer_epoch: Epoch(words.number("epoch").unwrap_or_default()),
        };
        let server = Server {
            words: words.0.iter().map(|word| (*word).to_owned()).collect(),
            candidate,
            members,
            election: None,
        };
        if self.servers.contains_key(&sid) {
            self.crash(sid);
        }
        self.servers.insert(sid, server);
    }

    fn start(&mut self, words: &Words<'_>) {
        for sid in words.sids() {
            let server = self.servers.get_mut(&sid).expect("a known server");
            if let Some(zxid) = words.number("zxid") {
                server.candidate.zxid = Some(Zxid(zxid));
            }
            if let Some(epoch) = words.number("epoch") {
                server.candidate.peer_epoch = Epoch(epoch);
            }
            let candidate = server.candidate;
            let is_new = server.election.is_none();
            self.boot(sid);
            let (now_ms, mut out) = (self.now_ms, Vec::new());
            if let Some(election) = self.election(sid) {
                election.start(candidate, now_ms, &mut out);
            }
            self.act(sid, out);
            let others: Vec<Sid> = self.servers.keys().copied().collect();
            for other in others.into_iter().filter(|other| is_new && *other != sid) {
                self.connect(other, sid);
            }
        }
    }

    /// Ends a server's role before its log is on disk.
    fn resign(&mut self, sid: Sid) {
        if let Some(election) = self.election(sid) {
            election.end_role();
        }
    }

    fn boot(&mut self, sid: Sid) {
        let server = self.servers.get_mut(&sid).expect("a known server");
        let fresh = || fresh(sid, &server.words, &server.members, server.candidate);
        server.election.get_or_insert_with(fresh);
    }

    fn see_connection(&mut self, words: &Words<'_>) {
        let peer = Sid(words.number("from").expect("a peer"));
        for sid in words.sids().collect::<Vec<_>>() {
            let mut out = Vec::new();
            if let Some(election) = self.election(sid) {
                election.handle_peer_up(peer, &mut out);
            }
            self.act(sid, out);
        }
    }

    fn see_refusal(&mut self, words: &Words<'_>) {
        let (peer, now_ms) = (Sid(words.number("from").expect("a peer")), self.now_ms);
        for sid in words.sids().collect::<Vec<_>>() {
            if let Some(election) = self.election(sid) {
                election.handle_peer_refused(peer, now_ms);
            }
        }
    }

    /// Reports to `sid` that it has a connection to `to`.
    fn connect(&mut self, sid: Sid, to: Sid) {
        if self.is_linked(sid, to)
            && let Some(election) = self.election(sid)
        {
            let mut out = Vec::new();
            election.handle_peer_up(to, &mut out);
            self.act(sid, out);
        }
    }

    fn election(&mut self, sid: Sid) -> Option<&mut Election> {
        self.servers.get_mut(&sid)?.election.as_mut()
    }

    fn is_linked(&self, one: Sid, other: Sid) -> bool {
        let runs = |sid| {
            let server: Option<&Server> = self.servers.get(&sid);
            server.is_some_and(|server| server.election.is_some())
        };
        runs(one) && runs(other) && !self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn crash(&mut self, sid: Sid) {
        if let Some(server) = self.servers.get_mut(&sid) {
            server.election = None;
        }
        self.on_the_way
            .retain(|(from, to, _)| *from != sid && *to != sid);
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            self.lose(other, sid);
        }
    }

    /// Reports to `sid` that its connection to `gone` has closed.
    fn lose(&mut self, sid: Sid, gone: Sid) {
        let now_ms = self.now_ms;
        let mut out = Vec::new();
        if let Some(election) = self.election(sid) {
            election.handle_peer_down(gone, now_ms, &mut out);
        }
        self.act(sid, out);
    }

    fn cut(&mut self, pair: &str) {
        let (one, other) = two(pair, '-');
        self.cuts.insert((one.min(other), one.max(other)));
        let is_between =
            |from: Sid, to: Sid| (from, to) == (one, other) || (to, from) == (one, other);
        self.on_the_way
            .retain(|(from, to, _)| !is_between(*from, *to));
        for (sid, gone) in [(one, other), (other, one)] {
            self.lose(sid, gone);
        }
    }

    fn heal(&mut self, pair: &str) {
        let (one, other) = two(pair, '-');
        self.cuts.remove(&(one.min(other), one.max(other)));
        self.connect(one, other);
        self.connect(other, one);
    }

    fn deliver(&mut self, words: &Words<'_>) {
        if words.0.is_empty() {
            for _ in 0..self.on_the_way.len() {
                self.deliver_at(0);
            }
        }
        for pair in &words.0 {
            let (from, to) = two(pair, '>');
            let mut pairs = self.on_the_way.iter();
            match pairs.position(|message| (message.0, message.1) == (from, to)) {
                Some(at) => self.deliver_at(at),
                None => panic!("no message is in flight: {pair}"),
            };
        }
    }

    fn deliver_at(&mut self, at: usize) -> bool {
        let Some((from, to, notification)) = self.on_the_way.remove(at) else {
            return false;
        };
        self.hand_over(from, to, received(notification));
        true
    }

    fn hand_over(&mut self, from: Sid, to: Sid, received: ReceivedNotification) {
        let (now_ms, mut out) = (self.now_ms, Vec::new());
        if let Some(election) = self.election(to) {
            election.handle_notification(from, &received, now_ms, &mut out);
            self.act(to, out);
        }
    }

    fn pass(&mut self, ms: i64, with_messages: bool) {
        let end_ms = self.now_ms + ms;
        loop {
            while with_messages && self.deliver_at(0) {}
            let elections = self.servers.iter().filter_map(|(sid, server)| {
                let deadline_ms = server.election.as_ref()?.next_deadline()?;
                Some((deadline_ms, *sid))
            });
            match elections
                .min()
                .filter(|(deadline_ms, _)| *deadline_ms <= end_ms)
            {
                None => break,
                Some((deadline_ms, sid)) => {
                    self.now_ms = self.now_ms.max(deadline_ms);
                    let (now_ms, mut out) = (self.now_ms, Vec::new());
                    if let Some(election) = self.election(sid) {
                        election.handle_deadline(now_ms, &mut out);
                    }
                    self.act(sid, out);
                }
            }
        }
        self.now_ms = end_ms;
    }

    fn activate(&mut self, words: &Words<'_>) {
        let epoch = Epoch(words.number("epoch").expect("an epoch"));
        for sid in words.sids() {
            if let Some(election) = self.election(sid) {
                election.handle_epoch_active(epoch);
            }
        }
    }

    fn hear(&mut self, words: &Words<'_>) {
        let to = words.sids().next().expect("a sid");
        let from = Sid(words.number("from").expect("a sender"));
        let state = match words.0[2] {
            "LOOKING" => PeerState::Looking,
            "FOLLOWING" => PeerState::Following,
            "LEADING" => PeerState::Leading,
            "OBSERVING" => PeerState::Observing,
            other => PeerState::from_i32(other.parse().expect("a state")),
        };
        let vote = words.value("vote").expect("a vote");
        let parts: Vec<i64> = vote
            .trim_matches(['(', ')'])
            .split(',')
            .map(number)
            .collect();
        let config = words.value("list").map(|list| {
            config_text(&MemberList {
                version: ConfigVersion(words.number("version").unwrap_or_default()),
                voters: sids(list).into_iter().collect(),
            })
        });
        let form = match config {
            _ if words.has("short") => Form::WithoutEpoch,
            config => Form::Versioned {
                version: 2,
                config: Some(config.unwrap_or_default()),
            },
        };
        let notification = Notification {
            state,
            leader: Sid(parts[2]),
            zxid: Zxid(parts[1]),
            round: ElectionRound(words.number("round").expect("a round")),
            peer_epoch: Epoch(parts[0]),
            form,
        };
        self.hand_over(from, to, received(notification));
    }

    fn query_oracle(&mut self, words: &Words<'_>) {
        let oracle = (!words.has("gone")).then_some(Oracle {
            is_needed: true,
            grants: words.has("grants"),
        });
        let now_ms = self.now_ms;
        for sid in words.sids() {
            if let Some(election) = self.election(sid) {
                election.handle_oracle(oracle, now_ms);
            }
        }
    }

    fn print_votes(&mut self, words: &Words<'_>) {
        for sid in words.sids().collect::<Vec<_>>() {
            let votes = self.election(sid).map(|election| election.votes());
            let votes = votes.unwrap_or_default();
            let one = |(from, ballot): (Sid, zoarium_election::Ballot)| {
                format!("{from}: {}", ballot.vote)
            };
            let votes: Vec<String> = votes.into_iter().map(one).collect();
            self.output
                .push(format!("{sid} holds {{{}}}", votes.join(", ")));
        }
    }

    fn print_states(&mut self) {
        let mut lines = Vec::new();
        for (sid, server) in &self.servers {
            lines.push(match &server.election {
                None => format!("{sid} down"),
                Some(election) => {
                    let (state, round) = (election.state(), election.round());
                    let vote = election.proposal().unwrap_or(election.published());
                    format!("{sid} {state:?} {vote} round {round}")
                }
            });
        }
        self.output.append(&mut lines);
    }

    /// Prints a server's actions, and queues its notifications.
    fn act(&mut self, sid: Sid, out: Vec<Action>) {
        let mut told: Vec<(String, Vec<String>)> = Vec::new();
        for action in out {
            let line = action.to_string();
            let Action::Send { to, notification } = action else {
                told.push((line, Vec::new()));
                continue;
            };
            // Equal notifications to several servers are one line.
            let what = line.split_once(": ").expect("send N: what").1.to_owned();
            match told.last_mut() {
                Some((last, all)) if *last == what => all.push(to.to_string()),
                _ => told.push((what, vec![to.to_string()])),
            }
            if to == sid || self.is_linked(sid, to) {
                // A queue of one keeps only the newest, but a connection may transport several.
                self.on_the_way.push_back((sid, to, notification));
            }
        }
        let at = self.now_ms;
        for (what, to) in told {
            self.output.push(if to.is_empty() {
                format!("[{at}] {sid} {what}")
            } else {
                format!("[{at}] {sid}>{}: {what}", to.join(","))
            });
        }
    }
}

fn two(pair: &str, separator: char) -> (Sid, Sid) {
    let (one, other) = pair.split_once(separator).expect("two servers");
    (Sid(number(one)), Sid(number(other)))
}

fn fresh(sid: Sid, words: &[String], members: &MemberList, candidate: Candidate) -> Election {
    let words = Words(words.iter().map(String::as_str).collect());
    let settings = Settings {
        membership_guard: words.value("guard") != Some("off"),
        reconfig_enabled: words.has("reconfig"),
        ..Settings::default()
    };
    let role = if words.has("observer") {
        Role::Observer
    } else {
        Role::Participant
    };
    let (text, version) = (config_text(members), members.version);
    let voters = members.voters.iter().copied();
    let zero = words.value("zero").map(sids).unwrap_or_default();
    let mut electorate = match words.value("groups") {
        None => Electorate::new(Majority::new(voters), version, text),
        Some(groups) => {
            let groups = (1..).map(GroupId).zip(groups.split('/').map(sids));
            let weights = zero.into_iter().map(|sid| (sid, 0));
            let verifier = Hierarchical::new(voters, groups, weights).expect("a hierarchy");
            Electorate::new(verifier, version, text)
        }
    };
    if let Some(proposed) = words.value("proposed") {
        electorate = electorate.with_proposed(Majority::new(sids(proposed)));
    }
    let mut election = Election::new(sid, role, settings, electorate, candidate);
    if let Some(known) = words.number("known") {
        election.set_min_config_version(ConfigVersion(known));
    }
    election
}

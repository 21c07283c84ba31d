//! An interrupted search as text: the bounds, the results, the states on each schedule and all
//! known states.

use std::fmt::Write as _;

use super::search::{Explorer, Node};
use super::{Bounds, Choice};

/// Separates two lists of choices.
const SEPARATOR: &str = "-";

impl Explorer {
    /// Returns the search as text. A violation is not part of it.
    pub fn to_text(&self) -> String {
        let Bounds {
            transactions,
            crashes,
            timeouts,
            elections,
            snapshots,
        } = self.bounds;
        let mut text =
            format!("bounds {transactions} {crashes} {timeouts} {elections} {snapshots}\n");
        let done = &self.done;
        let _ = writeln!(
            text,
            "done {} {} {} {}",
            done.schedules,
            done.choices,
            done.depth,
            done.share.to_bits()
        );
        for node in &self.nodes {
            let (before, choice) = match node.origin {
                Some((before, choice)) => (before.to_string(), choice.number().to_string()),
                None => (SEPARATOR.to_owned(), SEPARATOR.to_owned()),
            };
            let _ = write!(text, "node {before} {choice} {}", node.share.to_bits());
            // The other choices of a complete node are of no use.
            if !node.left.is_empty() {
                for choices in [&node.left, &node.made, &node.asleep] {
                    add(&mut text, choices);
                    let _ = write!(text, " {SEPARATOR}");
                }
            }
            text.push('\n');
        }
        for (state, asleep) in &self.known {
            let _ = write!(text, "state {state}");
            add(&mut text, asleep);
            text.push('\n');
        }
        text.push_str("end\n");
        text
    }

    /// Returns the search with this text, or `None` if the text is not complete.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        let bounds = lines.next()?.strip_prefix("bounds ")?;
        let mut search = Self::new(bounds_of(bounds)?);
        for line in lines {
            let mut words = line.split(' ');
            let kind = words.next()?;
            let words: Vec<&str> = words.collect();
            match (kind, &words[..]) {
                ("done", [schedules, choices, depth, share]) => {
                    search.done.schedules = schedules.parse().ok()?;
                    search.done.choices = choices.parse().ok()?;
                    search.done.depth = depth.parse().ok()?;
                    search.done.share = f64::from_bits(share.parse().ok()?);
                }
                ("node", words) => {
                    let node = node_of(words)?;
                    if !node.left.is_empty() {
                        search.open.push(search.nodes.len());
                    }
                    search.nodes.push(node);
                }
                ("state", [state, asleep @ ..]) => {
                    let asleep = choices_of(asleep)?;
                    search.known.insert(state.parse().ok()?, asleep);
                }
                _ => return None,
            }
        }
        search.done.states = search.known.len();
        Some(search)
    }
}

fn add(text: &mut String, choices: &[Choice]) {
    for choice in choices {
        let _ = write!(text, " {}", choice.number());
    }
}

fn node_of(words: &[&str]) -> Option<Node> {
    let [before, choice, share, lists @ ..] = words else {
        return None;
    };
    let origin = match *before {
        SEPARATOR => None,
        before => Some((
            before.parse().ok()?,
            Choice::of_number(choice.parse().ok()?)?,
        )),
    };
    let mut lists = lists.split(|word| *word == SEPARATOR);
    let mut next = || choices_of(lists.next().unwrap_or_default());
    Some(Node {
        origin,
        share: f64::from_bits(share.parse().ok()?),
        left: next()?,
        made: next()?,
        asleep: next()?,
    })
}

fn choices_of(words: &[&str]) -> Option<Vec<Choice>> {
    let choices = words.iter();
    let choices = choices.map(|word| Choice::of_number(word.parse().ok()?));
    choices.collect()
}

fn bounds_of(text: &str) -> Option<Bounds> {
    let numbers: Option<Vec<u8>> = text.split(' ').map(|word| word.parse().ok()).collect();
    let [transactions, crashes, timeouts, elections, snapshots] = numbers?[..] else {
        return None;
    };
    Some(Bounds {
        transactions,
        crashes,
        timeouts,
        elections,
        snapshots,
    })
}

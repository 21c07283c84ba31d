//! Processing of the events that contenders report, and checks of these events.

use simulation::world::BEGIN_MS;

use super::programs::ProgramEvent;
use super::{Contender, Contenders, name_of};
use crate::history::History;
use crate::invariants::CheckResult;
use crate::invariants::recipes::{self, Grant, Moment, Recipe, Recipes};
use crate::simulated::World;

impl Contenders {
    /// Records a report, and checks it.
    pub(super) fn hear(&mut self, number: usize, told: ProgramEvent, world: &mut World) {
        let Some(contender) = self.all.get_mut(number) else {
            return;
        };
        world.say(name_of(number), || format!("{told:?}"));
        let recipe = contender.recipe;
        let now = Moment {
            zxid: world.checks.history.end(),
            wall_ms: BEGIN_MS + world.now_ms(),
        };
        if told.is_progress() {
            contender.done += 1;
            for (_, done) in self.done.iter_mut().filter(|(of, _)| *of == recipe) {
                *done += 1;
            }
        }
        contender.note(&told, now);
        let source = Source {
            number,
            recipe,
            since: contender.since,
            now,
        };
        let held = judge(&mut self.judged, source, told, &world.checks.history);
        world.checks.hold(recipes::NAME, held);
    }
}

impl Contender {
    fn note(&mut self, told: &ProgramEvent, now: Moment) {
        match told {
            ProgramEvent::Waits => self.is_waiting = true,
            ProgramEvent::WaitsNoMore | ProgramEvent::Granted { .. } => self.is_waiting = false,
            ProgramEvent::Begins => self.since = now,
            ProgramEvent::Over => self.is_over = true,
            _ => {}
        }
    }
}

impl ProgramEvent {
    fn is_progress(&self) -> bool {
        matches!(
            self,
            Self::Granted { .. } | Self::Put(_) | Self::Taken(_) | Self::Done
        )
    }
}

/// Contender that reports something, the time of the report, and the beginning of its observation.
#[derive(Debug, Clone, Copy)]
struct Source {
    number: usize,
    recipe: Recipe,
    since: Moment,
    now: Moment,
}

/// Compares a report with the guarantees of its recipe.
fn judge(
    judged: &mut Recipes,
    source: Source,
    told: ProgramEvent,
    history: &History,
) -> CheckResult {
    let Source { number, recipe, .. } = source;
    match told {
        ProgramEvent::Granted { path, token } => {
            let grant = Grant {
                recipe,
                path,
                token,
            };
            return judged.granted(number, grant, history);
        }
        ProgramEvent::Yielded => judged.yielded(number),
        ProgramEvent::Put(item) => judged.put(item, recipe),
        ProgramEvent::Taken(item) => judged.taken(item),
        ProgramEvent::Confirmed(item) => return judged.confirmed(item),
        ProgramEvent::Seen(seen) => return judged.seen(&seen, source.since, source.now, history),
        ProgramEvent::Incremented => judged.incremented(),
        ProgramEvent::Unknown => judged.unknown(recipe),
        ProgramEvent::Leased(lease) => return judged.leased(number, lease),
        ProgramEvent::Wrong(text) => return Err(format!("contender {number}: {text}")),
        ProgramEvent::Waits
        | ProgramEvent::WaitsNoMore
        | ProgramEvent::Begins
        | ProgramEvent::Done
        | ProgramEvent::Over => {}
    }
    Ok(())
}

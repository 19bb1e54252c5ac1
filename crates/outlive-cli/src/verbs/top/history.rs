//! What figures of things have been, look by look.

use std::collections::{HashMap, VecDeque};

use super::scene::Scene;
use super::thing::{Section, Thing};

/// So many looks are kept.
const LOOKS: usize = 240;

/// The figures of all things that are there, by section and name.
#[derive(Clone, Debug, Default)]
pub struct History {
    of: HashMap<(Section, String), Past>,
}

/// Of each figure of a thing what it was, the latest last.
type Past = Vec<VecDeque<f64>>;

impl History {
    /// Adds what there is now. What is gone is forgotten.
    pub fn add(&mut self, scene: &Scene) {
        let mut before = std::mem::take(&mut self.of);
        for thing in scene.things.iter().filter(|thing| !thing.figures.is_empty()) {
            let key = (thing.section, thing.name.clone());
            let mut past = before.remove(&key).unwrap_or_default();
            past.resize(thing.figures.len(), VecDeque::new());
            for (past, (_, now)) in past.iter_mut().zip(&thing.figures) {
                if past.len() == LOOKS {
                    past.pop_front();
                }
                past.push_back(*now);
            }
            self.of.insert(key, past);
        }
    }

    /// Returns what a thing's figure with that number was, the latest last.
    pub fn of(&self, thing: &Thing, figure: usize) -> Vec<f64> {
        let past = self.of.get(&(thing.section, thing.name.clone()));
        past.and_then(|past| past.get(figure))
            .map_or_else(Vec::new, |past| past.iter().copied().collect())
    }
}

/// Returns the last figures as a row of bars, as wide as that; the highest is the largest of them.
pub fn bars(past: &[f64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &past[past.len().saturating_sub(width)..];
    let largest = shown.iter().copied().fold(0.0, f64::max);
    let bar = |figure: &f64| match figure / largest {
        part if part > 0.0 => BARS[((part * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    let bars: String = shown.iter().map(bar).collect();
    format!("{bars:>width$}")
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::{scene, thing};
    use super::*;

    #[test]
    fn figures_are_kept_while_their_thing_is_there() {
        let mut history = History::default();
        let with = |figure: f64| {
            let mut topic = thing(Section::Topics, "camera", &[]);
            topic.figures = vec![("messages a second", figure), ("lag", 1.0)];
            scene(vec![topic])
        };
        for step in 0..LOOKS + 3 {
            history.add(&with(step as f64));
        }
        let topic = &with(0.0).things[0];
        let past = history.of(topic, 0);
        assert_eq!((past.len(), past[0], past[LOOKS - 1]), (LOOKS, 3.0, (LOOKS + 2) as f64));
        assert_eq!(history.of(topic, 1), vec![1.0; LOOKS]);
        assert!(history.of(topic, 2).is_empty());
        history.add(&scene(Vec::new()));
        assert!(history.of(topic, 0).is_empty(), "gone and forgotten");
    }

    #[test]
    fn bars_are_as_high_as_their_figures() {
        assert_eq!(bars(&[9.0, 0.0, 1.0, 4.0, 8.0], 4), " ▁▄█");
        assert_eq!(bars(&[3.0], 4), "   █");
        assert_eq!(bars(&[0.0, 0.0, f64::NAN], 3), "   ");
        assert_eq!(bars(&[], 2), "  ");
    }
}

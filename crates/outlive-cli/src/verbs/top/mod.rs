//! `outlive top`: the whole domain, live, on a full screen.
//!
//! `scene` is what there is at a moment, of `thing`s, `history` what their figures have been, `state`
//! what the person has chosen, and `view` draws all of it.

mod history;
mod json;
mod scene;
mod state;
mod thing;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::termios::tcgetwinsize;

use crate::cli::Common;
use crate::duration;
use crate::exit::{Code, Failure};
use crate::output;
use crate::process::Process;
use crate::screen::{self, Screen};
use history::History;
use scene::Scene;
use state::State;

/// Watch the whole domain: topics, queues, locks, pools, and what dead processes left
///
/// A full screen, renewed once a second or as --interval says. Keys: up and down (or k and j)
/// select a thing, Enter opens its page with all that is known about it and what its rate, its lag or
/// its waiters have been, Esc goes back, / lists only what has some text in its row, Tab goes to the
/// next kind of thing, s sorts by name, activity or size, r turns the order round, p or the space bar
/// pauses, q ends. The mouse selects, a second click opens, a click on a heading sorts by it.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive top\n  \
    outlive top --once | head -20
  \
    outlive top --once --json | jq '.topics[] | select(.lost_per_second > 0)'")]
pub struct TopArgs {
    /// Look again each time this much time has passed
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = duration::seconds)]
    interval: Duration,
    /// Print one look as text, or with --json as JSON, after one interval, which the rates need, and end
    #[arg(long)]
    once: bool,
    /// End with this process
    #[arg(long, hide = true, value_name = "PID")]
    with: Option<u32>,
}

/// Looking costs something: no oftener than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the verb.
pub fn run(args: &TopArgs, common: &Common) -> Result<(), Failure> {
    let interval = args.interval.max(LEAST_INTERVAL);
    if args.once {
        return once(interval, common);
    }
    if common.json {
        return Err(Failure::new(Code::Usage, "--json: a look at a time; use --once, too"));
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        return Err(Failure::new(Code::Usage, "top needs a terminal; use --once, or 'outlive ls'"));
    }
    watch(interval, args.with, common)
}

fn once(interval: Duration, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let before = Scene::look(&domain, None)?;
    std::thread::sleep(interval);
    let scene = Scene::look(&domain, Some(&before))?;
    if common.json {
        return output::print_json(&json::Look::of(&scene, scene.seconds_since(&before)));
    }
    let columns = tcgetwinsize(stdout()).map_or(80, |size| size.ws_col.max(40));
    output::print(view::as_text(&scene, columns))
}

fn watch(interval: Duration, with: Option<u32>, common: &Common) -> Result<(), Failure> {
    let signals = screen::signals()?;
    let with = match with {
        Some(pid) => match Process::find(pid, None)
            .map_err(|error| Failure::system("watch a process", &error))?
        {
            None => return Ok(()),
            found => found,
        },
        None => None,
    };
    // What cannot be opened is told on an ordinary screen.
    let domain = common.domain.existing()?;
    let mut scene = Scene::look(&domain, None)?;
    let mut state = State::default();
    let mut next = Instant::now() + interval.min(Duration::from_millis(250));
    let mut screen = Screen::take(signals)?;
    // The first look has no rates yet.
    let mut history = History::default();
    loop {
        screen.draw(|frame| view::draw(frame, &scene, &history, &mut state))?;
        let Some(events) = screen.events(with.as_ref().map(AsFd::as_fd), next)? else {
            return Ok(());
        };
        for event in &events {
            state.event(event, &scene);
        }
        if state.is_done() {
            return Ok(());
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            if !state.is_paused() {
                scene = Scene::look(&domain, Some(&scene))?;
                history.add(&scene);
                if let Some(name) = state.page(&scene).map(|thing| thing.name.clone()) {
                    scene.add_tangles(&domain, &name);
                }
            }
        }
    }
}

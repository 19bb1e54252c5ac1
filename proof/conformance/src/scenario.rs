//! Scenarios as data: which role does what, and what must come of it. doc/conformance.md describes
//! the lines.

/// One scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    /// `locks.txt:12`
    pub(crate) place: String,
    pub(crate) steps: Vec<Step>,
    /// How many roles: a, b, c.
    pub(crate) roles: usize,
    /// The step at which it must fail: one that shows that the runner sees faults.
    pub(crate) fails_at: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) role: usize,
    pub(crate) act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Does it, and the answer is one of these.
    Do(String, Expected),
    /// Begins it: the answer is awaited later.
    Begin(String),
    /// The answer to what was begun.
    Answers(Expected),
    /// What was begun is not answered, and its thread sleeps.
    Sleeps,
    /// SIGKILL.
    Killed,
    /// Ends at once, with everything that it holds.
    Exits,
    Stopped,
    Continued,
}

/// Alternatives, as words: `ok *`, `error timed-out`.
pub(crate) type Expected = Vec<Vec<String>>;

pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = |what: &str| format!("{file}:{}: {what}: {line}", at + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix('[') {
            let (name, _about) = title.split_once(']').ok_or_else(|| wrong("no title"))?;
            if scenarios.iter().any(|scenario| scenario.name == name) {
                return Err(wrong("there is one of that name"));
            }
            let place = format!("{file}:{}", at + 1);
            scenarios.push(Scenario {
                name: name.to_owned(),
                place,
                steps: Vec::new(),
                roles: 0,
                fails_at: None,
            });
            continue;
        }
        let scenario = scenarios.last_mut().ok_or_else(|| wrong("a step before any title"))?;
        let (line, marked) = match line.strip_prefix("! ") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        if marked && scenario.fails_at.replace(scenario.steps.len()).is_some() {
            return Err(wrong("a second mark"));
        }
        let mut letters = line.chars();
        let letter = letters.next().filter(|letter| ('a'..='c').contains(letter));
        let role = letter.ok_or_else(|| wrong("no role a, b or c"))? as usize - 'a' as usize;
        let act = act(letters.as_str()).ok_or_else(|| wrong("no step"))?;
        scenario.roles = scenario.roles.max(role + 1);
        scenario.steps.push(Step { line: at + 1, text: line.to_owned(), role, act });
    }
    match scenarios.iter().find(|scenario| scenario.steps.is_empty()) {
        Some(empty) => Err(format!("{}: no steps", empty.place)),
        None => Ok(scenarios),
    }
}

fn act(rest: &str) -> Option<Act> {
    match rest {
        " sleeps" => return Some(Act::Sleeps),
        " killed" => return Some(Act::Killed),
        " exits" => return Some(Act::Exits),
        " stopped" => return Some(Act::Stopped),
        " continued" => return Some(Act::Continued),
        _ => {}
    }
    let rest = rest.strip_prefix(": ")?;
    if let Some(command) = rest.strip_suffix(" ...") {
        return Some(Act::Begin(command.to_owned()));
    }
    if let Some(answer) = rest.strip_prefix("-> ") {
        return Some(Act::Answers(expected(answer)));
    }
    let (command, answer) = rest.split_once(" -> ").unwrap_or((rest, "ok"));
    Some(Act::Do(command.to_owned(), expected(answer)))
}

fn expected(answer: &str) -> Expected {
    answer.split(" | ").map(|one| one.split(' ').map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "# about\n[one] First\na: lock.open m 7\nb: lock.lock m 9 ...\nb sleeps\na killed\nb: -> ok 7 | owner-died *\n\n\
                    [two] !\n! c: queue.recv q try -> error empty\n";
        let read = parse("x.txt", text).expect("well formed");
        let words = |line: &str| expected(line);
        assert_eq!(
            (read.len(), read[0].roles, read[0].fails_at, read[1].fails_at),
            (2, 2, None, Some(0))
        );
        assert_eq!(read[0].steps[0].act, Act::Do("lock.open m 7".to_owned(), words("ok")));
        assert_eq!(read[0].steps[1].act, Act::Begin("lock.lock m 9".to_owned()));
        assert_eq!((&read[0].steps[2].act, &read[0].steps[3].act), (&Act::Sleeps, &Act::Killed));
        assert_eq!(read[0].steps[4].act, Act::Answers(words("ok 7 | owner-died *")));
        assert_eq!((read[1].roles, read[1].steps[0].line), (3, 10));
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for wrong in [
            "a: x",
            "[a] x\n",
            "[a] x\nd: y",
            "[a] x\na y",
            "[a] x\na: y\n[a] z\na: y",
            "[a] x\n! a: y\n! a: z",
        ] {
            assert!(parse("x.txt", wrong).is_err(), "{wrong}");
        }
    }
}

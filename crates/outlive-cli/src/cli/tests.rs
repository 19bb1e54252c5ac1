//! The rules of the command line, checked for all verbs.

use std::collections::{BTreeMap, BTreeSet};

use clap::Command;

use super::*;
use crate::repository;

/// Returns every command with its path, the program itself left out. Hidden ones that are no short
/// form are not for people.
fn all() -> Vec<(String, Command)> {
    fn collect(command: &Command, path: &str, into: &mut Vec<(String, Command)>) {
        for verb in command.get_subcommands() {
            let name = verb.get_name();
            let is_short_form =
                path.is_empty() && SHORT_FORMS.iter().any(|(short, _)| *short == name);
            if name == "help" || (verb.is_hide_set() && !is_short_form) {
                continue;
            }
            let path = if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
            collect(verb, &path, into);
            into.push((path, verb.clone()));
        }
    }
    let mut program = command();
    program.build();
    let mut commands = Vec::new();
    collect(&program, "", &mut commands);
    commands
}

/// Returns the commands that do something themselves.
fn verbs() -> Vec<(String, Command)> {
    all().into_iter().filter(|(path, verb)| path == "lock" || !verb.has_subcommands()).collect()
}

fn find(path: &str) -> Command {
    let found = all().into_iter().find(|(one, _)| one == path);
    found.unwrap_or_else(|| panic!("there is no '{path}'")).1
}

#[test]
fn the_definitions_agree_with_each_other() {
    command().debug_assert();
}

#[test]
fn each_command_says_what_it_does_and_has_an_example() {
    for (path, verb) in all() {
        let about = verb
            .get_about()
            .unwrap_or_else(|| panic!("'{path}' does not say what it does"))
            .to_string();
        assert!(
            !about.is_empty() && !about.ends_with('.') && !about.starts_with("Arguments"),
            "'{path}': {about}"
        );
        let help = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example"), "'{path}' has no example: {help}");
    }
}

/// Returns the words of what is typed after `outlive`, as a shell cuts them; each command of a
/// pipe.
fn typed(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word, mut quote) =
        (Vec::new(), Vec::new(), None::<String>, None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), _) if c == end => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '|' | ';' | '&' | '<' | '>') => {
                words.extend(word.take());
                if matches!(c, '<' | '>') {
                    // The file's name, up to the next command.
                    while chars.peek().is_some_and(|c| !matches!(c, '|' | ';' | '&')) {
                        chars.next();
                    }
                }
                if matches!(c, '|' | ';' | '&') {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words: &Vec<String>| !words.is_empty());
    commands
}

/// Parses each run of `outlive` in a line, also one that xargs starts.
#[track_caller]
fn parses(line: &str) -> usize {
    let mut found = 0;
    for words in typed(line) {
        let Some(at) = words.iter().position(|word| word == "outlive") else { continue };
        if let Err(error) = command().try_get_matches_from(&words[at..]) {
            assert!(error.kind() == ErrorKind::DisplayHelp, "{line}\n{error}");
        }
        found += 1;
    }
    found
}

#[test]
fn examples_are_taken_by_the_parser() {
    assert_eq!(typed("a 'b c' | d \"\" >e f; g # h"), [&["a", "b c"][..], &["d", ""], &["g"]]);
    for (path, verb) in all() {
        let help = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let examples = help.lines().skip_while(|line| !line.starts_with("Example"));
        let examples = examples.skip(1).take_while(|line| line.starts_with("  "));
        let found: usize = examples.map(parses).sum();
        assert!(found > 0, "'{path}' has no example with 'outlive': {help}");
        // An example shows the verb in whose help it is.
        let long = long_form(&path);
        let shown =
            if long == "lock run" { "outlive lock".to_owned() } else { format!("outlive {long}") };
        assert!(help.contains(&shown), "'{path}': {help}");
    }
}

#[test]
fn the_pages_show_commands_that_there_are() {
    let Some(page) = repository::text("doc/program.md") else { return };
    let Some(first_page) = repository::text("README.md") else { return };
    let mut in_shell = false;
    let mut found = 0;
    for line in page.lines().chain(first_page.lines()) {
        if line.starts_with("```") {
            in_shell = line.starts_with("```sh");
        } else if in_shell {
            found += parses(line);
        }
    }
    assert!(found > 50, "{found}");
    for (path, _) in verbs() {
        assert!(page.contains(&format!("`{path}")), "doc/program.md does not name '{path}'");
    }
    // Each verb's members of JSON are there as in its help.
    for (path, json) in JSON {
        let row = match json {
            // Once is enough.
            Json::Line(of, ENTRY) if path != "domain info" => {
                format!("| `{path}` | {of} | as `domain info` |")
            }
            Json::Line(of, members) => format!("| `{path}` | {of} | {members} |"),
            Json::Refused(why) => format!("| `{path}` | refused: {why} | |"),
        };
        assert!(page.contains(&row), "doc/program.md lacks\n{row}");
    }
}

#[test]
fn a_short_option_has_one_meaning() {
    let mut meanings: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
    for (path, verb) in all() {
        for option in verb.get_arguments() {
            let short = option
                .get_short()
                .into_iter()
                .chain(option.get_visible_short_aliases().unwrap_or_default());
            for letter in short {
                if KEPT_OPTIONS.contains(&(path.as_str(), option.get_id().as_str(), letter)) {
                    continue;
                }
                meanings
                    .entry(letter)
                    .or_default()
                    .insert(option.get_long().unwrap_or("?").to_owned());
            }
        }
    }
    assert!(meanings.len() >= 15, "{meanings:?}");
    let several: Vec<_> = meanings.iter().filter(|(_, meanings)| meanings.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
}

#[test]
fn a_letter_that_a_short_form_keeps_is_not_one_of_its_long_form() {
    for (short, id, letter) in KEPT_OPTIONS {
        let has = |path: &str| {
            let verb = find(path);
            let option = verb
                .get_arguments()
                .find(|option| option.get_id() == id)
                .expect("it has the option")
                .clone();
            option.get_short() == Some(letter)
                || option.get_visible_short_aliases().is_some_and(|all| all.contains(&letter))
        };
        assert!(has(short), "{short} -{letter}");
        assert!(!has(long_form(short)), "{} -{letter}", long_form(short));
    }
}

#[test]
fn each_verb_prints_json_or_refuses_to() {
    for (path, verb) in verbs() {
        let json =
            json_of(&path).unwrap_or_else(|| panic!("nothing is said about '{path} --json'"));
        let help = verb.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let says = match json {
            Json::Line(of, members) => {
                format!("With --json, one line of JSON for {of}:\n  {members}")
            }
            Json::Refused(why) => format!("--json is refused: {why}."),
        };
        assert!(help.contains(&says), "'{path}': {help}");
    }
    for (path, _) in JSON {
        assert!(verbs().iter().any(|(verb, _)| verb == path), "there is no '{path}'");
    }
}

#[test]
fn each_option_that_takes_a_time_takes_a_unit() {
    let mut found = 0;
    for (path, verb) in verbs() {
        for option in verb.get_arguments() {
            let names = option.get_value_names().unwrap_or_default();
            let of_old =
                ["SECONDS", "MS", "NS"].iter().any(|old| names.iter().any(|name| name == *old));
            assert!(!of_old, "'{path}': {names:?} takes a bare number only");
            let Some(long) = option.get_long().filter(|_| is_time(option)) else { continue };
            let kind = |time: &str| {
                let words = path.split(' ').map(str::to_owned);
                let words = ["outlive".to_owned()]
                    .into_iter()
                    .chain(words)
                    .chain([format!("--{long}={time}")]);
                // What is missing else is found missing later.
                command().try_get_matches_from(words).err().map(|error| error.kind())
            };
            // At most a millisecond.
            let times = if long == "work" { ["250ns", "2us"] } else { ["250ms", "2s"] };
            for time in ["2x", "s", "m30"] {
                assert_eq!(
                    kind(time),
                    Some(ErrorKind::ValueValidation),
                    "'{path} --{long} {time}'"
                );
            }
            for time in times.into_iter().chain(["100"]) {
                assert_ne!(
                    kind(time),
                    Some(ErrorKind::ValueValidation),
                    "'{path} --{long} {time}'"
                );
            }
            found += 1;
        }
    }
    assert!(found > 30, "{found}");
}

#[test]
fn a_short_form_is_its_long_form() {
    for (short, long) in SHORT_FORMS {
        let [short_form, long_form] = [short, long].map(find);
        let ids = |verb: &Command| -> Vec<String> {
            let ids = verb.get_arguments().map(|option| option.get_id().to_string());
            let mut ids: Vec<String> = ids.filter(|id| id != "help" && id != "version").collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(&short_form), ids(&long_form), "{short} and {long}");
        if short != "lock" {
            assert!(short_form.is_hide_set(), "{short} stands in the list of short forms");
            assert_eq!(
                short_form.get_about().map(ToString::to_string),
                long_form.get_about().map(ToString::to_string),
                "{short} and {long}"
            );
        }
        let help = short_form.get_long_about().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("short for 'outlive {long}")), "{help}");
    }
    let program = command();
    for help in [program.get_after_help(), program.get_after_long_help()] {
        let help = help.expect("it lists short forms").to_string();
        assert!(
            SHORT_FORMS.iter().all(|(_, long)| help.lines().any(|line| line.ends_with(long))),
            "{help}"
        );
    }
}

/// Returns what a line means, by the types that it is parsed into.
fn meaning(line: &str) -> String {
    let words = line.split(' ').map(OsString::from).collect();
    format!("{:?}", parse(words).1.verb)
}

#[test]
fn a_lock_may_bear_the_name_of_a_verb_as_before() {
    let holds = |line: &str, name: &str, command: &str| {
        let meaning = meaning(line);
        let words: Vec<&str> = command.split(' ').collect();
        assert!(meaning.contains(&format!("name: {name:?}")), "{line}: {meaning}");
        assert!(meaning.contains(&format!("command: {words:?}")), "{line}: {meaning}");
    };
    holds("outlive lock run -- make test", "run", "make test");
    holds("outlive lock -n list -- make", "list", "make");
    holds("outlive -d x lock info --nonblock -- make", "info", "make");
    holds("outlive lock help -- make", "help", "make");
    holds("outlive lock run run -- make", "run", "make");
    holds("outlive lock run backup make", "backup", "make");
    holds("outlive lock run backup -- make -j", "backup", "make -j");
    holds("outlive lock backup make -j --timeout 5 -n", "backup", "make -j --timeout 5 -n");
    holds("outlive lock backup -w 5 make", "backup", "make");
    holds("outlive lock backup -- make -- list", "backup", "make -- list");
    holds("outlive lock backup git log -- file", "backup", "git log -- file");
    holds("outlive lock backup list", "backup", "list");
    assert!(meaning("outlive lock list").contains("List"), "{}", meaning("outlive lock list"));
    assert!(
        meaning("outlive lock info run").contains("Info"),
        "{}",
        meaning("outlive lock info run")
    );
}

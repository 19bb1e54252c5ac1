//! A test of the models: it finds options whose `else` spin does not treat as the text suggests.
//!
//! If an option of a selection begins with another selection, spin puts the inner options beside
//! the outer ones. It then takes an inner `else` only when no outer option is executable. If one of
//! them always is, spin never visits what follows the `else`, and finds no mutation there. An
//! option that is written as `:: true -> if ...` has the meaning that a reader expects.

use std::collections::{BTreeMap, BTreeSet};

/// Splits a model into words and signs. `cpp` has removed the comments; a string would be split as
/// well.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") || rest.starts_with("->") => 2,
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// One model, preprocessed with the switches of one run.
struct Model<'a> {
    tokens: Vec<&'a str>,
    /// Where the body of each `inline` begins.
    inlines: BTreeMap<&'a str, usize>,
}

impl<'a> Model<'a> {
    fn new(text: &'a str) -> Model<'a> {
        let tokens = tokens(text);
        let begins =
            |at: usize| Some(at + tokens[at..].iter().position(|token| *token == "{")? + 1);
        let inlines = (0..tokens.len()).filter(|at| tokens[*at] == "inline");
        let inlines = inlines.filter_map(|at| Some((*tokens.get(at + 1)?, begins(at)?))).collect();
        Model { tokens, inlines }
    }

    fn at(&self, at: usize) -> &'a str {
        self.tokens.get(at).copied().unwrap_or("")
    }

    /// Returns where the options of the selection or loop at `open` begin, past their `::`.
    fn options(&self, open: usize) -> Vec<usize> {
        let mut level = 0;
        let mut options = Vec::new();
        for at in open..self.tokens.len() {
            match self.at(at) {
                "if" | "do" => level += 1,
                "fi" | "od" if level == 1 => break,
                "fi" | "od" => level -= 1,
                "::" if level == 1 => options.push(at + 1),
                _ => {}
            }
        }
        options
    }

    /// Returns whether the first statement there is a selection or loop with an `else`.
    fn begins_with_else(&self, at: usize, deep: u32) -> bool {
        match (self.at(at), self.at(at + 1)) {
            ("atomic" | "d_step" | "{", _) => self.begins_with_else(at + 1, deep),
            (_, ":") => self.begins_with_else(at + 2, deep),
            ("if" | "do", _) => {
                let options = self.options(at);
                options.iter().any(|option| {
                    self.at(*option) == "else" || self.begins_with_else(*option, deep)
                })
            }
            (name, "(") if deep < 20 => {
                self.inlines.get(name).is_some_and(|body| self.begins_with_else(*body, deep + 1))
            }
            _ => false,
        }
    }

    /// Returns the first words of each option that stands beside others and hides an `else`.
    fn hidden(&self) -> Vec<String> {
        let opens = (0..self.tokens.len()).filter(|at| matches!(self.at(*at), "if" | "do"));
        let beside_others =
            opens.map(|open| self.options(open)).filter(|options| options.len() > 1).flatten();
        let hidden = beside_others.filter(|option| self.begins_with_else(*option, 0));
        hidden
            .map(|option| {
                self.tokens[option..].iter().take(12).copied().collect::<Vec<_>>().join(" ")
            })
            .collect()
    }
}

#[test]
fn an_else_that_is_hidden_is_found() {
    let hidden = |text: &str| Model::new(text).hidden().len();
    assert_eq!(
        hidden("inline f() { atomic { if :: x -> y=1 :: else -> z=1 fi } } if :: skip :: f() fi"),
        1
    );
    assert_eq!(hidden("if :: skip :: true -> if :: x -> y=1 :: else fi fi"), 0);
    assert_eq!(hidden("do :: if :: x -> y=1 :: else fi od"), 0, "the only option");
    assert_eq!(hidden("if :: x -> if :: y :: else fi :: else fi"), 0);
}

#[test]
fn no_option_of_a_model_hides_an_else() {
    let folder = crate::paths::at(crate::paths::MODELS);
    let runs = std::fs::read_to_string(folder.join("runs.txt")).expect("readable");
    let mut runs = crate::models::parse(&runs).expect("well-formed");
    let key = |run: &crate::models::Run| (run.model.clone(), run.switches.clone());
    runs.sort_by_key(key);
    runs.dedup_by_key(|run| key(run));
    let mut found = BTreeSet::new();
    for run in runs {
        let text = run.preprocessed(&folder).unwrap_or_default();
        let hidden = Model::new(&String::from_utf8_lossy(&text)).hidden();
        found.extend(hidden.into_iter().map(|option| format!("{}: {option}", run.model)));
    }
    assert!(found.is_empty(), "{found:#?}");
}

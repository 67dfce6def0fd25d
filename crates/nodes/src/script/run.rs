//! What a script prints, and when it ends: played through in no time.

use std::time::Duration;

use api::MicroTime;

use super::words::{Word, date};
use super::{Performance, Printed, Run, Script, Statement, Surroundings, Target, When};

/// Rounds of a loop that are played: older ones are forgotten, as a log that is rotated forgets.
const MOST_ROUNDS: u32 = 2_000;

/// What is kept of one stretch of time.
const MOST_PRINTED: usize = 10_000;

/// What a file, a variable or a line holds: a loop that doubles one must come to an end. Twice what Linux hands to a process.
pub(super) const LONGEST: usize = 256 * 1024;

/// What is printed in one stretch of time, and what all files and variables hold: many of the longest would take gigabytes.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Longer than any cluster runs.
const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Script {
    /// How long the script runs and what it ends with; none where it never ends.
    pub fn outline(&self) -> Option<(Duration, i32)> {
        if has_loop(&self.0) {
            // Only an `exit` before the loop would end it.
            let before: Vec<Statement> = self
                .0
                .iter()
                .take_while(|one| !matches!(one.run, Run::Loop(_)))
                .cloned()
                .collect();
            let exits = before.iter().any(|one| matches!(one.run, Run::Exit(_)));
            return exits.then(|| Script(before).outline()).flatten();
        }
        let start = MicroTime::default();
        let around = Surroundings {
            files: std::collections::BTreeMap::new(),
            ..Surroundings::default()
        };
        let mut player = Player::new(&around, start, start, start.plus(FAR));
        player.takes_files_for_granted = true;
        let played = player.play(&self.0);
        let (at, code) = player.finish(played).ended?;
        Some((at.since(start), code))
    }

    pub fn writes_files(&self) -> bool {
        writes_files(&self.0)
    }

    /// What it does in the time after `from` and up to `to`, having been started at `start`.
    pub fn perform(
        &self,
        around: &Surroundings,
        start: MicroTime,
        from: MicroTime,
        to: MicroTime,
    ) -> Performance {
        let mut player = Player::new(around, start, from, to);
        let played = player.play(&self.0);
        player.finish(played)
    }
}

fn writes_files(statements: &[Statement]) -> bool {
    statements.iter().any(|statement| {
        let is_file = matches!(statement.to, Target::File { .. });
        is_file || matches!(&statement.run, Run::Loop(body) if writes_files(body))
    })
}

fn has_loop(statements: &[Statement]) -> bool {
    statements
        .iter()
        .any(|statement| matches!(statement.run, Run::Loop(_)))
}

/// Where what is printed goes.
enum Sink {
    Stdout,
    Stderr,
    Nowhere,
    File(String),
}

struct Player {
    around: Surroundings,
    now: MicroTime,
    from: MicroTime,
    to: MicroTime,
    code: i32,
    printed: Vec<Printed>,
    printed_bytes: usize,
    kept_bytes: usize,
    takes_files_for_granted: bool,
}

/// How a list of statements came to its end.
enum Played {
    Through,
    Exited,
    /// The time is over.
    Cut,
}

impl Player {
    fn new(around: &Surroundings, start: MicroTime, from: MicroTime, to: MicroTime) -> Player {
        Player {
            around: around.clone(),
            now: start,
            from,
            to,
            code: 0,
            printed: Vec::new(),
            printed_bytes: 0,
            kept_bytes: 0,
            takes_files_for_granted: false,
        }
    }

    fn finish(self, played: Played) -> Performance {
        let is_over = !matches!(played, Played::Cut);
        Performance {
            printed: self.printed,
            ended: is_over.then_some((self.now, self.code)),
            files: self.around.files,
        }
    }

    fn play(&mut self, statements: &[Statement]) -> Played {
        for statement in statements {
            let is_due = match statement.when {
                When::Always => true,
                When::Succeeded => self.code == 0,
                When::Failed => self.code != 0,
            };
            if !is_due {
                continue;
            }
            match self.step(statement) {
                Played::Through => {}
                other => return other,
            }
        }
        Played::Through
    }

    fn step(&mut self, statement: &Statement) -> Played {
        let mut code = 0;
        let Some(to) = self.open(&statement.to) else {
            self.code = 1;
            return Played::Through;
        };
        let to = &to;
        match &statement.run {
            Run::Sleep(time) => {
                let ends_at = self.now.plus(*time);
                if ends_at > self.to {
                    return Played::Cut;
                }
                self.now = ends_at;
            }
            Run::Forever => return Played::Cut,
            Run::Exit(asked) => {
                self.code = asked.unwrap_or(self.code);
                return Played::Exited;
            }
            Run::Status(status) => code = *status,
            Run::Assign(name, value) => {
                let value = self.expand(value);
                let held = self.around.environment.get(name);
                if self.makes_room(held.map_or(0, String::len), value.len()) {
                    self.around.environment.insert(name.clone(), value);
                }
            }
            Run::Echo { words, newline } => {
                let end = if *newline { "\n" } else { "" };
                self.print(to, format!("{}{end}", self.line(words)));
            }
            Run::Date(format) => {
                let text = match format {
                    None => date(self.now),
                    Some(format) => formatted(&self.expand(format), self.now),
                };
                self.print(to, format!("{text}\n"));
            }
            Run::Hostname => self.print(to, format!("{}\n", self.around.hostname)),
            Run::WorkingDirectory => self.print(to, "/\n".to_owned()),
            Run::User => self.print(to, "root\n".to_owned()),
            Run::Environment(names) => code = self.print_environment(names, to),
            Run::Cat(paths) => code = self.cat(paths, to),
            Run::List(paths) => code = self.list(paths, to),
            Run::Loop(body) => return self.play_loop(body),
        }
        self.code = code;
        Played::Through
    }

    /// Rounds that are over before the stretch begins are not played.
    fn play_loop(&mut self, body: &[Statement]) -> Played {
        let round: Duration = body.iter().map(|one| length(&one.run)).sum();
        if round.is_zero() {
            // It would print for ever without a pause: once is enough to see what.
            let played = self.play(body);
            return match played {
                Played::Through => Played::Cut,
                other => other,
            };
        }
        let rounds_until = |at: MicroTime, now: MicroTime| {
            let rounds = at.since(now).as_micros() / round.as_micros();
            u32::try_from(rounds).unwrap_or(u32::MAX)
        };
        let over = match writes_files(body) {
            // What they have written may be read yet.
            true => 0,
            false => rounds_until(self.from, self.now).saturating_sub(1),
        };
        let too_many = rounds_until(self.to, self.now).saturating_sub(MOST_ROUNDS);
        self.now = self.now.plus(round.saturating_mul(over.max(too_many)));
        while self.now <= self.to && self.printed.len() < MOST_PRINTED {
            match self.play(body) {
                Played::Through => {}
                other => return other,
            }
        }
        Played::Cut
    }

    fn print_environment(&mut self, names: &[Word], to: &Sink) -> i32 {
        if names.is_empty() {
            let lines = self.around.environment.iter();
            let text: String = lines
                .map(|(name, value)| format!("{name}={value}\n"))
                .collect();
            self.print(to, text);
            return 0;
        }
        let mut code = 0;
        for name in names {
            let name = self.expand(name);
            match self.around.environment.get(&name).cloned() {
                Some(value) => self.print(to, format!("{value}\n")),
                None => code = 1,
            }
        }
        code
    }

    fn cat(&mut self, paths: &[Word], to: &Sink) -> i32 {
        let mut code = 0;
        for path in paths {
            let path = self.expand(path);
            match self.around.files.get(&normal(&path)).cloned() {
                Some(Ok(text)) => self.print(to, text),
                Some(Err(why)) => {
                    self.print(&Sink::Stderr, format!("cat: can't open '{path}': {why}\n"));
                    code = 1;
                }
                None if self.takes_files_for_granted => {}
                None => {
                    let why = match self.around.entries(&normal(&path)).is_empty() {
                        true => format!("cat: can't open '{path}': No such file or directory\n"),
                        false => "cat: read error: Is a directory\n".to_owned(),
                    };
                    self.print(&Sink::Stderr, why);
                    code = 1;
                }
            }
        }
        code
    }

    fn list(&mut self, paths: &[Word], to: &Sink) -> i32 {
        let mut paths: Vec<String> = paths.iter().map(|path| self.expand(path)).collect();
        if paths.is_empty() {
            paths.push("/".to_owned());
        }
        let mut code = 0;
        for path in paths {
            let entries = self.around.entries(&normal(&path));
            if !entries.is_empty() {
                let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
                self.print(to, text);
            } else if self.around.files.contains_key(&normal(&path)) {
                self.print(to, format!("{path}\n"));
            } else if !self.takes_files_for_granted {
                self.print(
                    &Sink::Stderr,
                    format!("ls: {path}: No such file or directory\n"),
                );
                code = 1;
            }
        }
        code
    }

    fn expand(&self, word: &Word) -> String {
        word.expand(&self.around, self.now)
    }

    fn line(&self, words: &[Word]) -> String {
        let mut line = String::new();
        for (place, word) in words.iter().enumerate() {
            let word = self.expand(word);
            if line.len() + word.len() > LONGEST {
                break;
            }
            if place > 0 {
                line.push(' ');
            }
            line.push_str(&word);
        }
        line
    }

    /// Whether something may become so long; it counts from then on.
    fn makes_room(&mut self, from: usize, to: usize) -> bool {
        let kept = self.kept_bytes.saturating_sub(from) + to;
        let is_room = kept <= MOST_BYTES;
        if is_room {
            self.kept_bytes = kept;
        }
        is_room
    }

    fn print(&mut self, to: &Sink, text: String) {
        let to_stderr = match to {
            Sink::Stdout => false,
            Sink::Stderr => true,
            Sink::Nowhere => return,
            Sink::File(path) => return self.write(path, &text),
        };
        let is_room =
            self.printed.len() < MOST_PRINTED && self.printed_bytes + text.len() <= MOST_BYTES;
        if self.now > self.from && self.now <= self.to && is_room {
            self.printed_bytes += text.len();
            self.printed.push(Printed {
                at: self.now,
                to_stderr,
                text,
            });
        }
    }

    /// Where a statement prints to: a file is there from now on. None where there can be no such file.
    fn open(&mut self, target: &Target) -> Option<Sink> {
        Some(match target {
            Target::Stdout => Sink::Stdout,
            Target::Stderr => Sink::Stderr,
            Target::Nowhere => Sink::Nowhere,
            Target::File { path, append } => {
                let said = self.expand(path);
                let path = normal(&said);
                if !self.around.entries(&path).is_empty() {
                    let why = format!("sh: can't create {said}: Is a directory\n");
                    self.print(&Sink::Stderr, why);
                    return None;
                }
                let held = self.around.files.get(&path);
                let is_kept = *append && matches!(held, Some(Ok(_)));
                if !is_kept {
                    let held = held.map_or(0, |held| held.as_ref().map_or(0, String::len));
                    self.makes_room(held, 0);
                    self.around.files.insert(path.clone(), Ok(String::new()));
                }
                Sink::File(path)
            }
        })
    }

    fn write(&mut self, path: &str, text: &str) {
        let held = match self.around.files.get(path) {
            Some(Ok(held)) => held.len(),
            _ => return,
        };
        if held + text.len() <= LONGEST
            && self.makes_room(held, held + text.len())
            && let Some(Ok(held)) = self.around.files.get_mut(path)
        {
            held.push_str(text);
        }
    }
}

impl Surroundings {
    /// What a directory holds: what is mounted below it.
    fn entries(&self, directory: &str) -> Vec<String> {
        let prefix = match directory {
            "/" => "/".to_owned(),
            other => format!("{other}/"),
        };
        let below = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix));
        let mut entries: Vec<String> = below
            .filter_map(|rest| rest.split('/').next())
            .filter(|entry| !entry.is_empty())
            .map(str::to_owned)
            .collect();
        if directory == "/" {
            let usual = [
                "bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var",
            ];
            entries.extend(usual.map(str::to_owned));
        }
        entries.sort();
        entries.dedup();
        entries
    }
}

/// A path from the root, without what makes no difference.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn length(run: &Run) -> Duration {
    match run {
        Run::Sleep(time) => *time,
        _ => Duration::ZERO,
    }
}

/// `date +FORMAT`, as far as scripts use it.
fn formatted(format: &str, at: MicroTime) -> String {
    let text = at.time().to_string();
    let (day, time) = text
        .trim_end_matches('Z')
        .split_once('T')
        .unwrap_or((&text, ""));
    format
        .trim_start_matches('+')
        .replace("%s", &at.time().unix().to_string())
        .replace("%F", day)
        .replace("%T", time)
        .replace("%Y-%m-%d", day)
        .replace("%H:%M:%S", time)
}

//! The command line.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ContextKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::terminal::{self, Color, Terminal, Tone};
use crate::{
    apiserver, chaos, controller_manager, controllers, envtest, kube_apiserver, man, preview,
    running, simulate, up, version, why,
};

/// A kube-controller-manager, and a Kubernetes cluster in a box around it.
#[derive(Parser)]
#[command(name = "steersman", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to use colour
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, global = true)]
    color: Color,
}

const EXIT_CODES: &str = "Exit codes:
  0    it worked
  1    it did not, or the arguments make no sense; standard error says why
  2    preview: something does not complete; simulate: a check is broken
  3    status: no cluster is up
  141  whoever read the output has closed it

Files:
  ~/.local/share/steersman             the cluster that has no name ($XDG_DATA_HOME/steersman, if that is set)
  ~/.local/share/steersman-clusters    those that have one";

#[derive(Subcommand)]
enum Command {
    /// Start a cluster in a box: API server, simulated nodes and scheduler, all controllers
    Up(Box<up::Arguments>),
    /// Stop a cluster that is up
    Down(running::DownArguments),
    /// List the clusters that are up
    Status(running::StatusArguments),
    /// Print a link to the dashboard of a cluster that is up
    Dashboard(running::DashboardArguments),
    /// Stop, start or drain a simulated node
    Node(chaos::NodeArguments),
    /// Make a simulated pod fail
    Pod(chaos::PodArguments),
    /// Serve the Kubernetes API alone: for tests of controllers of your own
    Apiserver(apiserver::Arguments),
    /// Serve the Kubernetes API with kube-apiserver's own flags: for whatever starts one
    #[command(disable_help_flag = true)]
    KubeApiserver {
        /// kube-apiserver's own flags; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fill a folder for KUBEBUILDER_ASSETS: kube-apiserver and etcd for controller-runtime's envtest
    Envtest(envtest::Arguments),
    /// Run the controllers on a real cluster, in place of kube-controller-manager
    #[command(disable_help_flag = true)]
    ControllerManager {
        /// kube-controller-manager's own flags; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// List the controllers, and which of them this build has
    Controllers(controllers::Arguments),
    Simulate(simulate::Arguments),
    Why(why::Arguments),
    Preview(preview::Arguments),
    /// Print the version
    Version(version::Arguments),
    /// Print a completion script for your shell
    Completion {
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        folder: PathBuf,
    },
}

/// The whole command line, as what is generated from it sees it.
pub(crate) fn command() -> clap::Command {
    // `--nodes -1` is a number that makes no sense, not a flag that nobody knows.
    let numbers = |argument: clap::Arg| match argument.get_action().takes_values() {
        true if !argument.is_positional() => argument.allow_negative_numbers(true),
        _ => argument,
    };
    Cli::command().mut_subcommands(move |command| command.mut_args(numbers))
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches_from(arguments)?)
}

pub(crate) fn main() -> ExitCode {
    let cli = match parse(wanted(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    terminal::ask_for(cli.color);
    let result = match cli.command {
        Command::Up(arguments) => up::main(*arguments),
        Command::Down(arguments) => running::down(&arguments),
        Command::Status(arguments) => match running::status(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Dashboard(arguments) => running::dashboard(&arguments),
        Command::Node(arguments) => chaos::node(&arguments),
        Command::Pod(arguments) => chaos::pod(&arguments),
        Command::Apiserver(arguments) => apiserver::main(arguments),
        Command::ControllerManager { arguments } => {
            return controller_manager::main("steersman controller-manager", arguments.into_iter());
        }
        Command::KubeApiserver { arguments } => {
            return kube_apiserver::main("steersman kube-apiserver", arguments.into_iter());
        }
        Command::Envtest(arguments) => envtest::main(&arguments),
        Command::Controllers(arguments) => controllers::main(&arguments),
        Command::Simulate(arguments) => return simulate::main(&arguments),
        Command::Why(arguments) => why::main(&arguments),
        Command::Preview(arguments) => match preview::main(&arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Version(arguments) => version::main(&arguments),
        Command::Man { folder } => man::write(command(), &folder),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "steersman", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let terminal = Terminal::of(&std::io::stderr());
            let problem = client::sentence(error.as_ref());
            let problem = format!("{} {problem}", terminal.paint(Tone::Bad, "error:"));
            eprintln!("{}", terminal.wrap(&problem));
            ExitCode::FAILURE
        }
    }
}

/// `help --help` asks for help, which the parser's own `help` takes for the name of a command.
fn wanted(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<_> = arguments.iter().skip(1).map(|word| word.to_str()).collect();
    if matches!(
        words[..],
        [Some("help"), ..] | [Some("node" | "pod"), Some("help"), ..]
    ) {
        arguments.retain(|word| word != "--help" && word != "-h");
    }
    arguments
}

/// The parser's own words for a number that is none speak of digits and target types.
fn bad_number(error: &clap::Error) -> Option<clap::Error> {
    let cause = std::error::Error::source(error)?.downcast_ref::<ParseIntError>()?;
    let why = match cause.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "it is too large",
        _ => "it is not a whole number",
    };
    let told = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (argument, value) = (
        told(ContextKind::InvalidArg),
        told(ContextKind::InvalidValue),
    );
    let why = match value.parse::<i128>() {
        Ok(..0) => "it is less than 0",
        _ => why,
    };
    let message = format!(
        "invalid value '{value}' for '{argument}': {why}\n\nFor more information, try '--help'.\n"
    );
    Some(clap::Error::raw(error.kind(), message))
}

/// Arguments that make no sense end with 1: clap's own 2 is what `simulate` and `preview` say of a check that is
/// broken and a rollout that does not complete. Help and versions that were asked for are no mistake.
fn refuse(error: &clap::Error) -> ExitCode {
    // Where nobody listens there is nobody to tell.
    let _ = match bad_number(error) {
        Some(error) => error.print(),
        None => error.print(),
    };
    match error.use_stderr() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_help_is_help() {
        let check = |line: &str| {
            let arguments = line.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(wanted(arguments)).err();
            error.is_some_and(|error| !error.use_stderr())
        };
        for line in [
            "steersman help --help",
            "steersman help up -h",
            "steersman node help --help",
            "steersman why --help",
        ] {
            assert!(check(line), "{line}");
        }
        assert!(!check("steersman help nothing"));
    }

    #[test]
    fn a_negative_number_is_no_flag() {
        let arguments = ["steersman", "up", "--nodes", "-1"].map(OsString::from);
        let told = parse(arguments).err().map(|error| error.to_string());
        let told = told.unwrap_or_default();
        let first = told.lines().next().unwrap_or_default();
        assert_eq!(
            first,
            "error: invalid value '-1' for '--nodes <NODES>': -1 is not in 0..=5000"
        );
    }

    #[test]
    fn a_negative_duration_is_no_flag() {
        let arguments = ["steersman", "preview", "-f", "a", "--for", "-5s"].map(OsString::from);
        let told = parse(arguments).err().map(|error| error.to_string());
        let told = told.unwrap_or_default();
        assert!(
            told.starts_with(
                "error: invalid value '-5s' for '--for <DURATION>': \"-5s\" is not a duration"
            ),
            "{told}"
        );
    }

    #[test]
    fn numbers_that_are_none_are_refused_in_plain_words() {
        let check = |arguments: &[&str]| {
            let arguments = ["steersman"].iter().chain(arguments);
            let error = parse(arguments.map(OsString::from)).err();
            let told = error.and_then(|error| bad_number(&error));
            let told = told.map(|error| error.to_string()).unwrap_or_default();
            told.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(
            check(&["up", "--nodes", "many"]),
            "error: invalid value 'many' for '--nodes <NODES>': it is not a whole number"
        );
        assert_eq!(
            check(&["up", "--port", "99999999999999999999"]),
            "error: invalid value '99999999999999999999' for '--port <PORT>': it is too large"
        );
        assert_eq!(
            check(&["preview", "-f", "a", "--nodes", "-1"]),
            "error: invalid value '-1' for '--nodes <N>': it is less than 0"
        );
        assert_eq!(
            check(&["up", "--port", "70000"]),
            "",
            "clap names the range"
        );
        assert_eq!(check(&["up", "--speed", "fast"]), "");
    }
}

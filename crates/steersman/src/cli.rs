//! The command line.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    apiserver, chaos, controller_manager, controllers, envtest, kube_apiserver, preview, running,
    simulate, up, why,
};

/// A kube-controller-manager, and a Kubernetes cluster in a box around it.
#[derive(Parser)]
#[command(name = "steersman", version, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster in a box: API server, simulated nodes and scheduler, all controllers
    Up(Box<up::Arguments>),
    /// Stop a cluster that is up
    Down(running::DownArguments),
    /// Say which clusters are up
    Status(running::StatusArguments),
    /// Print a link to the dashboard of a cluster that is up
    Dashboard(running::DashboardArguments),
    /// Stop, start or drain a simulated node
    Node(chaos::NodeArguments),
    /// Let a simulated pod fail
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
    /// Run the whole cluster on a virtual clock, from seeds, with faults and crashes
    Simulate(simulate::Arguments),
    Why(why::Arguments),
    Preview(preview::Arguments),
    /// Print the version
    Version,
    /// Print a completion script for your shell
    Completion {
        shell: clap_complete::Shell,
    },
}

pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
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
        Command::Version => {
            println!(
                "steersman {} (Kubernetes API 1.36)",
                env!("CARGO_PKG_VERSION")
            );
            Ok(())
        }
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "steersman", &mut script);
            print!("{}", String::from_utf8_lossy(&script));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Arguments that make no sense end with 1: clap's own 2 is what `simulate` and `preview` say of a check that is
/// broken and a rollout that does not complete. Help and versions that were asked for are no mistake.
fn refuse(error: &clap::Error) -> ExitCode {
    // Where nobody listens there is nobody to tell.
    let _ = error.print();
    match error.use_stderr() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

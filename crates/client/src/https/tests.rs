//! The transport against a TLS server on loopback: here protocols and faults.

mod bad_input;
mod measured;
mod rotation;
mod server;

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;

use self::server::{Reply, TestServer};
use crate::config::{Auth, Config, Environment, Material};
use crate::{Client, ListOptions, WatchEvent, WatchOptions, describe};

fn nodes() -> api::ResourceType {
    api::ResourceType::cluster("", "v1", "nodes", "Node")
}

fn config(server: &TestServer) -> Config {
    let address = format!("https://{}", server.address);
    let mut config = Config::for_server(&address, &Environment::default()).unwrap();
    config.tls.authorities = Some(Material::Inline(server.authority.pem().into()));
    config
}

fn clock() -> api::Clock {
    api::Clock::fixed(api::Time::parse("2030-01-01T00:00:00Z").unwrap())
}

fn client(config: Config) -> Client {
    Client::new(super::transport(config, clock()).unwrap())
}

async fn get(client: &Client) -> Result<String, String> {
    match client.get(&nodes(), "", "n").await {
        Ok(body) => Ok(String::from_utf8(body.to_vec()).unwrap()),
        Err(error) => Err(describe(&error)),
    }
}

async fn watch(client: &Client) -> crate::WatchStream {
    client
        .watch(&nodes(), "", &WatchOptions::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn http2_shares_one_connection_and_keeps_watches_apart() {
    let server =
        TestServer::start(|request| Reply::text(format!("{:?} {}", request.version, request.uri)))
            .await;
    let client = client(config(&server));
    let address = server.address;
    for answer in join_all((0..50).map(|_| get(&client))).await {
        assert_eq!(
            answer.unwrap(),
            format!("HTTP/2.0 https://{address}/api/v1/nodes/n")
        );
    }
    assert_eq!(server.connections(), 1);
    let _watch = watch(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn http1_is_spoken_where_there_is_no_http2() {
    let server = TestServer::builder()
        .http1()
        .start(|request| {
            Reply::text(format!(
                "{:?} {} {}",
                request.version,
                request.uri,
                request.header("host")
            ))
        })
        .await;
    let mut config = config(&server);
    config.server.prefix = "/prefix".to_owned();
    let client = client(config);
    let expected = format!("HTTP/1.1 /prefix/api/v1/nodes/n {}", server.address);
    for _ in 0..5 {
        assert_eq!(get(&client).await.unwrap(), expected);
    }
    assert_eq!(server.connections(), 1, "an idle connection is used again");
    for answer in join_all((0..3).map(|_| get(&client))).await {
        answer.unwrap();
    }
    assert!(
        (2..=3).contains(&server.connections()),
        "{} connections",
        server.connections()
    );
}

#[tokio::test]
async fn more_streams_than_a_connection_takes_open_another() {
    let server = TestServer::builder()
        .max_streams(2)
        .start(|_| Reply::Never)
        .await;
    let client = client(config(&server));
    // The server's limit is known once the first answer is there.
    let mut watches = vec![watch(&client).await];
    for _ in 0..4 {
        watches.push(watch(&client).await);
    }
    assert_eq!(server.connections(), 3, "5 watches, 2 per connection");
}

#[tokio::test]
async fn a_closed_connection_is_replaced_unnoticed() {
    let server = TestServer::start(|_| Reply::text("fine")).await;
    let client = client(config(&server));
    for round in 1..=3 {
        assert_eq!(get(&client).await.as_deref(), Ok("fine"));
        assert_eq!(server.connections(), round);
        server.close_connections().await;
    }
}

#[tokio::test]
async fn a_server_that_says_goodbye_keeps_its_streams_and_gets_no_new_ones() {
    let server = TestServer::start(|request| {
        let is_watch = request.uri.query().is_some();
        if is_watch {
            Reply::part("{\"type\":\"ADDED\",\"object\":{}}\n")
        } else {
            Reply::text("fine")
        }
    })
    .await;
    let client = client(config(&server));
    assert_eq!(get(&client).await.as_deref(), Ok("fine"));
    let mut first = watch(&client).await;
    assert!(first.next().await.unwrap().is_ok());
    server.say_goodbye().await;
    assert_eq!(get(&client).await.as_deref(), Ok("fine"));
    let _second = watch(&client).await;
    assert_eq!(
        server.connections(),
        4,
        "one each for requests and watches, before and after"
    );
    let still_open = futures_util::poll!(first.next());
    assert!(still_open.is_pending(), "{still_open:?}");
}

#[tokio::test]
async fn a_dead_connection_is_noticed_and_replaced_within_30_seconds() {
    let server = TestServer::start(|request| match request.uri.query() {
        Some(_) => Reply::part("{\"type\":\"ADDED\",\"object\":{}}\n"),
        None => Reply::text("fine"),
    })
    .await;
    let client = client(config(&server));
    assert_eq!(get(&client).await.as_deref(), Ok("fine"));
    let mut stalled = watch(&client).await;
    stalled.next().await;
    server.freeze_connections();
    // Virtual time from here on: nothing moves on the network, so it runs ahead to the next ping.
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let noticed = async {
        let lost = stalled.next().await;
        // Connecting anew takes real time.
        tokio::time::resume();
        (lost, started.elapsed())
    };
    let (answer, (lost, took)) = tokio::join!(get(&client), noticed);
    let lost = lost.unwrap().unwrap_err();
    assert!(lost.is_transport() && lost.should_retry(), "{lost}");
    let said = crate::describe(&lost);
    assert!(said.contains("does not answer pings"), "{said}");
    assert!(took <= Duration::from_secs(27), "took {took:?}");
    assert_eq!(
        answer.as_deref(),
        Ok("fine"),
        "a read is sent again over a new connection"
    );
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_watch_cut_in_the_middle_of_an_event_is_a_transport_error() {
    let text = "{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADD";
    let server = TestServer::start(move |_| Reply::part(text)).await;
    let client = client(config(&server));
    for round in 1..=2 {
        let mut events = watch(&client).await;
        assert!(matches!(
            events.next().await,
            Some(Ok(WatchEvent::Added(_)))
        ));
        server.close_connections().await;
        let error = events.next().await.unwrap().unwrap_err();
        assert!(error.is_transport() && error.should_retry(), "{error}");
        assert!(events.next().await.is_none());
        assert_eq!(server.connections(), round);
    }
}

#[tokio::test]
async fn a_list_cut_in_the_middle_is_a_transport_error() {
    let (asked, mut was_asked) = tokio::sync::watch::channel(false);
    let server = TestServer::start(move |_| {
        asked.send_replace(true);
        Reply::part("{\"metadata\":{},\"items\":[")
    })
    .await;
    let client = client(config(&server));
    let options = ListOptions::default();
    let cut = async {
        was_asked.changed().await.unwrap();
        server.close_connections().await;
    };
    let nodes = nodes();
    let (answer, ()) = tokio::join!(client.list(&nodes, "", &options), cut);
    assert!(answer.unwrap_err().is_transport());
}

#[tokio::test]
async fn garbage_instead_of_http_is_a_transport_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let babble = async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut tcp, &[0x80; 512])
            .await
            .unwrap();
    };
    let client = client(Config::for_server(&address, &Environment::default()).unwrap());
    let (answer, ()) = tokio::join!(get(&client), babble);
    let message = answer.unwrap_err();
    assert!(
        message.contains("got no complete answer from the API server"),
        "{message}"
    );
}

#[tokio::test]
async fn a_proxy_is_tunnelled_through() {
    let server = TestServer::start(|_| Reply::text("through")).await;
    let proxy = server::proxy("Basic dTpw").await;
    let uri = |user: &str| Some(format!("http://{user}@{proxy}").parse().unwrap());
    let through = client(Config {
        proxy: uri("u:p"),
        ..config(&server)
    });
    assert_eq!(get(&through).await.as_deref(), Ok("through"));
    let refused = client(Config {
        proxy: uri("u:wrong"),
        ..config(&server)
    });
    let message = get(&refused).await.unwrap_err();
    assert!(
        message.contains("the proxy 127.0.0.1 does not let us through"),
        "{message}"
    );
    assert!(
        message.contains("407") && !message.contains("wrong"),
        "{message}"
    );
}

#[tokio::test]
async fn acting_as_somebody_else_and_by_password() {
    let headers = [
        "authorization",
        "impersonate-user",
        "impersonate-group",
        "impersonate-extra-reason",
    ];
    let server = TestServer::start(move |request| {
        Reply::text(
            headers
                .map(|name| request.header(name).to_owned())
                .join(","),
        )
    })
    .await;
    let mut config = config(&server);
    config.auth = Auth::Basic {
        username: "u".into(),
        password: "p".into(),
    };
    config.impersonate = Some(crate::config::Impersonate {
        user: "alice".into(),
        groups: vec!["dev".into()],
        extra: [("Reason".to_owned(), vec!["test".to_owned()])].into(),
        ..Default::default()
    });
    assert_eq!(
        get(&client(config)).await.as_deref(),
        Ok("Basic dTpw,alice,dev,test")
    );
}

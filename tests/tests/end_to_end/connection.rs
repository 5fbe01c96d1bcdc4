//! Connections to the servers of both sides: TLS, logins, sockets, and what becomes of them when a server or the network goes away.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tests::{
    forwarder::Forwarder,
    pipeline::{eventually, text},
    service::{Service, port},
    source,
};

use crate::{
    bad_input::refused,
    outage::Flow,
    world::{Options, World},
};

const TABLES: [&str; 2] = ["t", "keyless"];
/// A table without a key shows what is there twice.
const SETUP: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60));\n\
                     CREATE TABLE keyless (v VARCHAR(60) NOT NULL, n INT NOT NULL);\n\
                     INSERT INTO t (v) VALUES ('one'), ('two'), ('three');\n\
                     INSERT INTO keyless VALUES ('row 1', 1), ('row 1', 1), ('row 2', 2);";
/// What a source needs on both servers, and a copy without keys on MySQL.
const RIGHTS: &str = "SELECT, REPLICATION SLAVE, REPLICATION CLIENT, LOCK TABLES";
const KEYLESS: &str = "    keyless: full_row\n";
const PATIENCE: Duration = Duration::from_secs(60);

fn options(source_url: String) -> Options<'static> {
    Options { source_url: Some(source_url), sink: KEYLESS, ..Options::default() }
}

/// Configures another way to the source, with these lines under `source:`.
fn connect_by(world: &World, address: &str, source: &str) {
    world.configure(&Options { source, sink: KEYLESS, ..Options::default() });
    let yaml = std::fs::read_to_string(&world.pipeline.config).unwrap();
    world.pipeline.reconfigure(&yaml.replace(&format!("{}/{}", world.source_url, world.name), address));
}

fn accepted(world: &World, address: &str, source: &str) {
    connect_by(world, address, source);
    let output = world.pipeline.command(&["check"], &[]);
    assert_eq!(output.status.code(), Some(0), "{address} {source}: {}", text(&output));
}

/// The log has a connection of its own, which logs in by itself.
async fn runs(world: &mut World, address: &str, source: &str) {
    accepted(world, address, source);
    world.start();
    world.source.run(&format!("INSERT INTO `{}`.t (v) VALUES ('by {}')", world.name, address.split(':').nth(1).unwrap())).await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert_eq!(world.pipeline.stop(), 0);
}

fn not_accepted(world: &World, address: &str, source: &str, words: &[&str]) {
    connect_by(world, address, source);
    refused(&world.pipeline, 1, words);
}

async fn account(session: &mut source::Session, name: &str, identified: &str) {
    session.run(&format!("DROP USER IF EXISTS {name}")).await;
    session.run(&format!("CREATE USER {name} {identified}")).await;
    session.run(&format!("GRANT {RIGHTS} ON *.* TO {name}")).await;
}

/// One value as text.
async fn value(session: &mut source::Session, sql: &str) -> String {
    let rows = session.query(sql).await.unwrap();
    String::from_utf8(rows[0][0].clone().unwrap()).unwrap()
}

/// Waits until `status` has the source in this state, with this in its message.
async fn source_is(world: &World, state: &str, word: &str) {
    eventually(&format!("the source is {state}: {word}"), PATIENCE, async || {
        let status = &world.pipeline.status()["source"];
        status["state"] == state && status["message"].as_str().is_some_and(|message| message.contains(word))
    })
    .await;
}

/// Authorities `ca` and `other`, a server of the first one at 127.0.0.1, and a client of each.
fn certificates(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join("instar-tests").join(format!("{name}_certificates"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let script = "set -e; key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n\
        printf 'subjectAltName=IP:127.0.0.1\\n' > server.ext; printf 'extendedKeyUsage=clientAuth\\n' | tee client.ext > stranger.ext\n\
        for ca in ca other; do openssl req -x509 $key -days 30 -subj /CN=$ca -keyout $ca.key -out $ca.pem; done\n\
        for name in server client stranger; do ca=ca; [ $name != stranger ] || ca=other; openssl req $key -subj /CN=$name -keyout $name.key -out $name.csr\n\
        openssl x509 -req -in $name.csr -CA $ca.pem -CAkey $ca.key -CAcreateserial -days 30 -extfile $name.ext -out $name.pem; done";
    let output = Command::new("bash").args(["-c", script]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "openssl: {}", text(&output));
    folder
}

/// A server of its own with these certificates.
fn server_with(kind: &str, name: &str, certificates: &Path) -> Service {
    let file = |name: &str| certificates.join(name).display().to_string();
    let options = format!("--ssl-ca={} --ssl-cert={} --ssl-key={}", file("ca.pem"), file("server.pem"), file("server.key"));
    let server = match kind {
        "mysql" => Service::mysql(name, 2).with("MYSQL_OPTIONS", &options),
        _ => Service::mariadb(name, 2).with("MARIADB_OPTIONS", &options),
    };
    server.start();
    server
}

/// Every way of TLS against one server; then a whole pipeline whose every connection shows its certificate, over a restart.
async fn tls(kind: &str) {
    let name = format!("tls_{kind}");
    let folder = certificates(&name);
    let server = server_with(kind, &name, &folder);
    let mut world = World::with(&name, SETUP, &TABLES, options(server.url())).await;
    let (here, by_name) = (format!("127.0.0.1:{}/{name}", port(&server.url())), format!("localhost:{}/{name}", port(&server.url())));
    let root = |address: &str| format!("mysql://root:test@{address}");
    let tls = |mode: &str, files: &[(&str, &str)]| {
        let files: String = files.iter().map(|(key, file)| format!(", {key}: {}", folder.join(file).display())).collect();
        format!("  tls: {{ mode: {mode}{files} }}\n")
    };
    let ca = ("ca", "ca.pem");

    accepted(&world, &root(&here), &format!("  tls: {{ ca: {} }}\n", folder.join("ca.pem").display()));
    accepted(&world, &root(&here), &tls("verify-full", &[ca]));
    let wrong_name = ["certificate not valid for name \"localhost\"", "source.url a name", "source.tls.mode: verify-ca"];
    not_accepted(&world, &root(&by_name), &tls("verify-full", &[ca]), &wrong_name);
    accepted(&world, &root(&by_name), &tls("verify-ca", &[ca]));
    for mode in ["verify-ca", "verify-full"] {
        not_accepted(&world, &root(&here), &tls(mode, &[("ca", "other.pem")]), &["TLS fails", "source.tls.ca"]);
        not_accepted(&world, &root(&here), &tls(mode, &[]), &["UnknownIssuer", "source.tls.ca"]);
    }
    for mode in ["require", "prefer", "disable"] {
        accepted(&world, &root(&here), &tls(mode, &[]));
    }
    not_accepted(&world, &root(&here), &tls("verify-full", &[("ca", "none.pem")]), &["source.tls: ", "none.pem"]);

    // What the account asks for.
    account(&mut world.source, "secret@'127.0.0.1'", "IDENTIFIED BY 's3cret' REQUIRE SSL").await;
    let secret = format!("mysql://secret:s3cret@{here}");
    not_accepted(&world, &secret, &tls("disable", &[]), &["user `secret` is refused", "REQUIREs SSL", "source.tls.mode: require"]);
    accepted(&world, &secret, &tls("prefer", &[]));
    account(&mut world.source, "shown@'127.0.0.1'", "IDENTIFIED BY 's3cret' REQUIRE X509").await;
    let shown = format!("mysql://shown:s3cret@{here}");
    let client = [ca, ("certificate", "client.pem"), ("key", "client.key")];
    not_accepted(&world, &shown, &tls("verify-full", &[ca]), &["user `shown` is refused", "REQUIREs X509", "source.tls.certificate"]);
    let stranger = [ca, ("certificate", "stranger.pem"), ("key", "stranger.key")];
    not_accepted(&world, &shown, &tls("verify-full", &stranger), &["source.tls.certificate"]);
    accepted(&world, &shown, &tls("verify-full", &client));

    // What the server asks for.
    world.source.run("SET GLOBAL require_secure_transport = ON").await;
    let tls_only = ["require_secure_transport", "source.tls.mode: require"];
    not_accepted(&world, &root(&here), &tls("disable", &[]), &tls_only);

    // A person of this system, by the server's socket.
    socket_login(kind, &mut world).await;

    // Catalog, copy, log and lock: this account has no connection without its certificate.
    connect_by(&world, &shown, &tls("verify-full", &client));
    world.start();
    world.source.run("INSERT INTO t (v) VALUES ('streamed')").await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7").await;
    world.source.run("INSERT INTO keyless VALUES ('streamed', 1), ('streamed', 1)").await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert!(world.pipeline.command(&["reload"], &[&format!("{name}.t")]).status.success());
    world.pipeline.caught_up();
    world.assert_equal().await;

    // The server goes away with rows that may not have been read yet, and comes back.
    world.source.run("SET GLOBAL require_secure_transport = OFF").await;
    let flow = Flow::start(&world).await;
    flow.more(20).await;
    flow.end().await;
    server.stop();
    source_is(&world, "retrying", &format!("127.0.0.1:{}", port(&server.url()))).await;
    server.start();
    world.reconnect().await;
    world.source.run(&format!("USE {name}")).await;
    let flow = Flow::start(&world).await;
    flow.more(20).await;
    flow.end().await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    source_is(&world, "running", "").await;
}

/// The account of the system's user who runs this, who needs no password at the socket.
async fn socket_login(kind: &str, world: &mut World) {
    let output = Command::new("id").arg("-un").output().unwrap();
    let person = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let path = value(&mut world.source, "SELECT @@socket").await;
    let identified = match kind {
        "mysql" => {
            world.source.run("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'").await;
            "IDENTIFIED WITH auth_socket"
        }
        _ => "IDENTIFIED VIA unix_socket",
    };
    // Where that is root, its account is the one that starts and stops the server; it stays what it was for that.
    world.source.run(&format!("CREATE USER IF NOT EXISTS '{person}'@localhost {identified}")).await;
    world.source.run(&format!("ALTER USER '{person}'@localhost {identified}")).await;
    world.source.run(&format!("GRANT {RIGHTS} ON *.* TO '{person}'@localhost")).await;
    accepted(world, &format!("mysql://{person}@localhost/{}?socket={path}", world.name), "");
    let nobody = format!("mysql://nobody@localhost/{}?socket={path}", world.name);
    // MySQL asks who is not there for any kind of login.
    not_accepted(world, &nobody, "", &[&format!("socket {path}: "), "user `nobody`"]);
    let no_socket = format!("mysql://{person}@localhost/{}?socket={path}.none", world.name);
    not_accepted(world, &no_socket, "", &[&format!("socket {path}.none: connecting: the server cannot be reached")]);
    not_accepted(world, &nobody, "  tls: { mode: require }\n", &["over a socket there is no TLS"]);
    let other = format!("mysql://nobody@localhost/{}?ssl-mode=required", world.name);
    not_accepted(world, &other, "", &["source.url: unknown parameter \"ssl-mode\"; known is socket"]);
}

#[tokio::test]
async fn mariadb_is_reached_by_tls_in_every_mode_and_by_its_socket() {
    tls("mariadb").await;
}

#[tokio::test]
async fn mysql_is_reached_by_tls_in_every_mode_and_by_its_socket() {
    tls("mysql").await;
}

/// A wrong password is refused soon, with server and user.
fn wrong_password(world: &World, address: &str, user: &str, source: &str) {
    let begin = Instant::now();
    connect_by(world, &format!("mysql://{user}:not-s3cret@{address}"), source);
    let output = world.pipeline.command(&["check"], &[]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let server = address.split('/').next().unwrap();
    assert!(printed.contains(&format!("{server}: user `{user}` is refused")), "{printed}");
    assert!(!printed.contains("s3cret"), "{printed}");
}

#[tokio::test]
async fn mariadb_lets_in_by_native_password_and_ed25519() {
    let url = source::url("mariadb");
    let mut world = World::with("logins_mariadb", SETUP, &TABLES, options(url.clone())).await;
    let address = format!("127.0.0.1:{}/logins_mariadb", port(&url));
    for (user, plugin) in [("by_native", "mysql_native_password"), ("by_ed25519", "ed25519")] {
        account(&mut world.source, &format!("{user}@'127.0.0.1'"), &format!("IDENTIFIED VIA {plugin} USING PASSWORD('s3cret')")).await;
        runs(&mut world, &format!("mysql://{user}:s3cret@{address}"), "").await;
        wrong_password(&world, &address, user, "");
    }
}

#[tokio::test]
async fn mariadb_lets_in_by_parsec_and_says_what_is_missing() {
    let url = source::url("mariadb_11");
    let mut world = World::with("logins_parsec", SETUP, &TABLES, options(url.clone())).await;
    let address = format!("127.0.0.1:{}/logins_parsec", port(&url));
    account(&mut world.source, "by_parsec@'127.0.0.1'", "IDENTIFIED VIA parsec USING PASSWORD('s3cret')").await;
    runs(&mut world, &format!("mysql://by_parsec:s3cret@{address}"), "").await;
    wrong_password(&world, &address, "by_parsec", "");
    not_accepted(&world, &format!("mysql://by_parsec@{address}"), "", &["user `by_parsec`", "give it in source.url"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_lets_in_by_caching_sha2_in_full_and_from_its_cache() {
    let url = source::url("mysql");
    let mut world = World::with("logins_mysql", SETUP, &TABLES, options(url.clone())).await;
    account(&mut world.source, "by_sha2@'127.0.0.1'", "IDENTIFIED WITH caching_sha2_password BY 's3cret'").await;
    let way = Forwarder::to(port(&url)).await;
    let address = format!("127.0.0.1:{}/logins_mysql", way.port());
    let login = format!("mysql://by_sha2:s3cret@{address}");
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let key: &[u8] = b"-----BEGIN PUBLIC KEY-----";

    // Without TLS: in full, by the server's RSA key; then from the server's cache.
    let plain = "  tls: { mode: disable }\n";
    accepted(&world, &login, plain);
    let first = way.heard();
    assert!(contains(&first.from_server, key) && !contains(&first.from_client, b"s3cret"));
    accepted(&world, &login, plain);
    let second = way.heard();
    // The packet that says that the cache has it: length, number, 1, 3.
    assert!(contains(&second.from_server, &[2, 0, 0, 2, 1, 3]) && !contains(&second.from_server, key));
    wrong_password(&world, &address, "by_sha2", plain);
    // In full over TLS, where the password itself goes.
    world.source.run("FLUSH PRIVILEGES").await;
    way.heard();
    accepted(&world, &login, "  tls: { mode: require }\n");
    let third = way.heard();
    assert!(!third.from_client.is_empty() && !contains(&third.from_client, b"s3cret") && !contains(&third.from_server, key));
    wrong_password(&world, &address, "by_sha2", "  tls: { mode: require }\n");

    // The certificates that the server makes itself name no host.
    let data = value(&mut world.source, "SELECT @@datadir").await;
    accepted(&world, &login, &format!("  tls: {{ mode: verify-ca, ca: {data}ca.pem }}\n"));
    not_accepted(&world, &login, &format!("  tls: {{ ca: {data}ca.pem }}\n"), &["certificate not valid for name", "verify-ca"]);

    runs(&mut world, &login, plain).await;
    runs(&mut world, &login, &format!("  tls: {{ mode: verify-ca, ca: {data}ca.pem }}\n")).await;

    // What the driver does not know.
    account(&mut world.source, "by_sha256@'127.0.0.1'", "IDENTIFIED WITH sha256_password BY 's3cret'").await;
    let words = ["the server asks user `by_sha256` to log in by sha256_password, which is not supported", "caching_sha2_password"];
    not_accepted(&world, &format!("mysql://by_sha256:s3cret@{address}"), "", &words);
}

/// How the network goes away.
#[derive(Debug, Clone, Copy)]
enum Outage {
    Cut,
    Silent,
    /// Only what is open is lost, and the server does not know it.
    Lost,
}

/// The network goes away while rows flow, and comes back.
async fn network(kind: &str, outages: &[(Outage, &str)]) {
    let (name, url) = (format!("network_{kind}"), source::url(kind));
    let mut world = World::with(&name, SETUP, &TABLES, options(url.clone())).await;
    let way = Forwarder::to(port(&url)).await;
    connect_by(&world, &format!("mysql://root:test@127.0.0.1:{}/{name}", way.port()), "  heartbeat: 1s\n");
    world.start();
    let flow = Flow::start(&world).await;
    for (outage, reason) in outages {
        flow.more(20).await;
        match outage {
            Outage::Cut => way.cut(),
            Outage::Silent => way.silence(),
            Outage::Lost => way.lose(),
        }
        source_is(&world, "retrying", reason).await;
        source_is(&world, "retrying", &format!("127.0.0.1:{}", way.port())).await;
        flow.more(20).await;
        way.open();
        source_is(&world, "running", "").await;
        flow.more(20).await;
    }
    flow.end().await;
    world.pipeline.caught_up();
    world.assert_equal().await;
    assert!(world.pipeline.is_running(), "{}", world.pipeline.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_behind_a_network_that_is_cut_and_silent_is_waited_out() {
    network("mariadb", &[(Outage::Cut, ""), (Outage::Silent, "nothing came from the log")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_behind_a_network_that_is_cut_and_loses_its_connections_is_waited_out() {
    network(
        "mysql",
        &[
            (Outage::Cut, ""),
            (Outage::Lost, "nothing came from the log"),
            (Outage::Lost, "the server still keeps this source's connection that was cut"),
        ],
    )
    .await;
}

/// Every way of TLS to the target, by the configuration and by the address; then a whole sink whose every connection shows its
/// certificate, over a restart.
#[tokio::test]
async fn postgres_is_reached_by_tls_in_every_mode() {
    let name = "tls_postgres";
    let folder = certificates(name);
    // The server reads its key as its own user, and wants it to be nobody else's.
    let owned = Command::new("bash")
        .args(["-c", "chmod 600 server.key; [ $(id -u) != 0 ] || chown postgres server.key"])
        .current_dir(&folder)
        .status();
    assert!(owned.is_ok_and(|s| s.success()));
    let file = |name: &str| folder.join(name).display().to_string();
    let options = format!(
        "-c ssl=on -c ssl_ca_file={} -c ssl_cert_file={} -c ssl_key_file={}",
        file("ca.pem"),
        file("server.pem"),
        file("server.key")
    );
    let server = Service::postgres(name, 5).with("POSTGRES_OPTIONS", &options);
    server.start();
    let mut world =
        World::with(name, SETUP, &TABLES, Options { target_url: Some(server.url()), sink: KEYLESS, ..Options::default() }).await;
    for user in ["secret", "shown"] {
        world.target.run(&format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 's3cret'")).await;
    }
    let hba = world.target.value("SHOW hba_file").await.unwrap();
    let rules = "hostssl all shown 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n\
                 hostssl all secret 127.0.0.1/32 scram-sha-256\n\
                 host all postgres 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(&hba, rules).unwrap();
    world.target.run("SELECT pg_reload_conf()").await;

    let here = format!("127.0.0.1:{}/{name}", port(server.url().trim_end_matches("/postgres")));
    let by_name = here.replace("127.0.0.1", "localhost");
    let postgres = |address: &str| format!("postgres://postgres:test@{address}");
    let connect_by = |address: &str, mode: &str, files: &[(&str, &str)]| {
        let files: String = files.iter().map(|(key, name)| format!(", {key}: {}", file(name))).collect();
        world.configure(&Options { sink: &format!("{KEYLESS}    tls: {{ mode: {mode}{files} }}\n"), ..Options::default() });
        let yaml = std::fs::read_to_string(&world.pipeline.config).unwrap();
        world.pipeline.reconfigure(&yaml.replace(&world.target_url, address));
    };
    let accepted = |address: &str, mode: &str, files: &[(&str, &str)]| {
        connect_by(address, mode, files);
        let output = world.pipeline.command(&["check"], &[]);
        assert_eq!(output.status.code(), Some(0), "{address} {mode} {files:?}: {}", text(&output));
    };
    let not_accepted = |address: &str, mode: &str, files: &[(&str, &str)], words: &[&str]| {
        connect_by(address, mode, files);
        refused(&world.pipeline, 1, words);
    };
    let ca = ("ca", "ca.pem");

    accepted(&postgres(&here), "verify-full", &[ca]);
    let wrong_name = ["certificate not valid for name \"localhost\"", "sinks.target.url a name", "sinks.target.tls.mode: verify-ca"];
    not_accepted(&postgres(&by_name), "verify-full", &[ca], &wrong_name);
    accepted(&postgres(&by_name), "verify-ca", &[ca]);
    for mode in ["verify-ca", "verify-full"] {
        not_accepted(&postgres(&here), mode, &[("ca", "other.pem")], &["TLS fails", "sinks.target.tls.ca"]);
        not_accepted(&postgres(&here), mode, &[], &["UnknownIssuer", "sinks.target.tls.ca"]);
    }
    for mode in ["require", "prefer", "disable"] {
        accepted(&postgres(&here), mode, &[]);
    }
    not_accepted(&postgres(&here), "verify-full", &[("ca", "none.pem")], &["sinks.target.tls: ", "none.pem"]);
    // As libpq says it, which goes before `tls`.
    accepted(&format!("{}?sslmode=verify-full&sslrootcert={}", postgres(&here), file("ca.pem")), "disable", &[]);
    not_accepted(&format!("{}?sslmode=verify-full&sslrootcert={}", postgres(&here), file("other.pem")), "disable", &[], &["TLS fails"]);

    // What the server asks of the role.
    let secret = format!("postgres://secret:s3cret@{here}");
    not_accepted(&secret, "disable", &[], &["no pg_hba.conf entry", "user \"secret\"", "no encryption"]);
    accepted(&secret, "prefer", &[]);
    let shown = format!("postgres://shown:s3cret@{here}");
    let client = [ca, ("certificate", "client.pem"), ("key", "client.key")];
    not_accepted(&shown, "verify-full", &[ca], &["valid client certificate"]);
    let stranger = [ca, ("certificate", "stranger.pem"), ("key", "stranger.key")];
    not_accepted(&shown, "verify-full", &stranger, &["sinks.target.tls.certificate"]);
    accepted(&shown, "verify-full", &client);

    // Copy, stream, DDL and ledger: this role has no connection without its certificate.
    connect_by(&shown, "verify-full", &client);
    world.start();
    world.source.run("INSERT INTO t (v) VALUES ('streamed')").await;
    world.source.run("ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7").await;
    world.pipeline.caught_up();
    world.assert_equal().await;

    // The server goes away and comes back: handshakes that are cut are tried again.
    server.stop();
    let address = here.split('/').next().unwrap();
    eventually("the sink is retrying", PATIENCE, async || {
        let status = &world.pipeline.status()["sinks"]["target"];
        status["state"] == "retrying" && status["message"].as_str().is_some_and(|message| message.contains(address))
    })
    .await;
    world.source.run("INSERT INTO t (v) VALUES ('meanwhile')").await;
    server.start();
    world.pipeline.caught_up();
    world.reconnect().await;
    world.assert_equal().await;
}

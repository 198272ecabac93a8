//! `thalweg demo-provider`, as an HTTP client sees it.

use std::net::SocketAddr;

use crate::harness::{Program, Response, Socket, request, thalweg, wait_for};

fn started(arguments: &[&str]) -> (Program, SocketAddr) {
    let always = ["demo-provider", "--listen", "127.0.0.1:0", "--size", "5KB"];
    let mut program = thalweg(&[&always, arguments].concat());
    let said = program.line().expect("a first line");
    let url = said.rsplit(' ').next().expect("a URL");
    let rest = said.strip_prefix("listening on http://").expect("where it listens");
    let (address, _) = rest.split_once(',').expect("an address");
    assert_eq!(url, format!("http://{address}/matchesfeed/1/matchcentre"));
    (program, address.parse().expect("an address"))
}

fn get(socket: &mut Socket, path: &str, headers: &[(&str, &str)]) -> Response {
    socket.send(request("GET", path, headers, b""));
    socket.response()
}

#[test]
fn it_is_asked_again_as_http_has_it() {
    let (mut program, address) = started(&["--every", "100ms", "--matches", "2"]);
    let mut socket = Socket::connect(address);
    let first = get(&mut socket, "/matchesfeed/2/matchcentre", &[]);
    assert_eq!((first.status, first.header("cache-control")), (200, Some("max-age=0")));
    assert_eq!(first.json()["id"], "2");
    assert!(first.header("last-modified").is_some());
    let tag = first.header("etag").expect("a tag").to_owned();
    let next = wait_for("a new version", || {
        let headers = [("If-None-Match", &*tag)];
        let answer = get(&mut socket, "/matchesfeed/2/matchcentre", &headers);
        assert!(answer.status == 200 || answer.body.is_empty());
        (answer.status == 200).then_some(answer)
    });
    assert_ne!((next.header("etag"), &next.body), (Some(&*tag), &first.body));
    assert_eq!(get(&mut socket, "/matchesfeed/all", &[]).json()["matches"][1]["id"], "2");
    assert_eq!(get(&mut socket, "/matchesfeed/3/matchcentre", &[]).status, 501);
    assert_eq!(get(&mut socket, "/matchesfeed/two/matchcentre", &[]).status, 400);
    let requests = get(&mut socket, "/requests", &[]).json();
    assert_eq!(
        (&requests["refused"], &requests["by_path"]["/matchesfeed/all"]),
        (&2.into(), &1.into())
    );
    program.interrupt();
    assert!(program.end().0.success());
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let told = |seed| {
        let (program, address) = started(&["--every", "1h", "--seed", seed]);
        let answer = get(&mut Socket::connect(address), "/matchesfeed/8/matchcentre", &[]);
        drop(program);
        (answer.header("etag").map(str::to_owned), answer.body)
    };
    assert_eq!(told("7"), told("7"));
    assert_ne!(told("7"), told("8"));
}

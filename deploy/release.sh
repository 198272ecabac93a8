#!/bin/sh
# Checks and builds a release. Publishes nothing. `make help` lists the targets that run it.
#
#   deploy/release.sh check TAG       HEAD is the tagged commit, and all files agree on the version
#   deploy/release.sh archive TARGET PROGRAM…
#                                     writes the archives of thalweg or thalweg-lab, their checksums and SBOMs to target/archives
#   deploy/release.sh packages        builds the packages for crates.io and npm as if to publish them
set -eu
cd "$(dirname "$0")/.."

CARGO=${CARGO:-cargo}
target_dir=${CARGO_TARGET_DIR:-target}
archives=target/archives
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

fail() {
  echo "$*" >&2
  exit 1
}

# agrees FILE EXPRESSION: the file has a line that matches, with the version in it.
agrees() {
  grep -qE "$2" "$1" || {
    echo "$1 does not name version $version: no line matches $2" >&2
    disagreed=1
  }
}

check() {
  [ $# = 1 ] || fail "Name the tag, as in make release-check TAG=v$version."
  tag=$1
  [ "$tag" = "v$version" ] || fail "$tag is not the tag of version $version, which Cargo.toml names: set the version, or tag v$version."
  [ -z "$(git status --porcelain)" ] || fail "The working tree has changes: commit or stash them."
  tagged=$(git rev-parse --quiet --verify "refs/tags/$tag^{commit}") || fail "There is no tag $tag: create it with git tag $tag."
  [ "$tagged" = "$(git rev-parse HEAD)" ] || fail "$tag is not the commit that is checked out: run git checkout $tag."
  dotted=$(echo "$version" | sed 's/\./\\./g')
  disagreed=
  agrees Cargo.toml "^thalweg-wire = .*version = \"$dotted\""
  for package in sdk ui; do agrees "web/$package/package.json" "^  \"version\": \"$dotted\""; done
  agrees web/ui/package.json "^    \"thalweg\": \"$dotted\""
  agrees deploy/helm/thalweg/Chart.yaml "^version: $dotted$"
  agrees deploy/helm/thalweg/Chart.yaml "^appVersion: \"$dotted\""
  # The newest section, so that no change is left under [Unreleased].
  grep -m 1 '^## ' CHANGELOG.md | grep -qE "^## \[$dotted\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" || {
    echo "CHANGELOG.md does not begin with version $version and its date: its first section is $(grep -m 1 '^## ' CHANGELOG.md)" >&2
    disagreed=1
  }
  [ -z "$disagreed" ] || fail "Correct these files, and move the tag."
  echo "$tag is the commit that is checked out, and all files agree on version $version."
}

# Installs what a target needs where that needs no question, and says it otherwise.
prepare() {
  [ -d "$(rustc --print target-libdir --target "$1")" ] \
    || rustup target add "$1" || fail "make dist needs the standard library of $1: install it with rustup target add $1."
  case $1 in
    "$(uname -m)"-*-musl)
      if command -v musl-gcc > /dev/null; then
        :
      elif [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        apt-get update -qq && apt-get install -y -qq musl-tools
      else
        fail "make dist needs musl-gcc for $1: install the package musl-tools."
      fi
      # Debian has no musl-gcc with the name that the crate cc expects on every machine.
      export "CC_$(echo "$1" | tr - _)=musl-gcc"
      ;;
  esac
}

# extras BINARY DIR: writes man pages and completions, which the binary makes itself.
extras() {
  "$1" man "$2/man" || fail "$1 must run on this machine to write its man pages: build its target on a machine of that kind."
  mkdir -p "$2/completions"
  program=$(basename "$1")
  "$1" completions bash > "$2/completions/$program.bash"
  "$1" completions zsh > "$2/completions/_$program"
  "$1" completions fish > "$2/completions/$program.fish"
}

archive() {
  [ $# -ge 2 ] || fail "Name the target, as in make dist DIST_TARGET=x86_64-unknown-linux-musl."
  target=$1
  shift
  [ -f web/ui/dist/index.html ] || fail "A release contains the pages, which need Node 20 or newer: install it and run make pages."
  [ -f book/dist/index.html ] || fail "A release contains the documentation: run make docs."
  prepare "$target"
  for program; do archive_of "$program"; done
}

# archive_of PROGRAM: writes its archive for $target. A production host needs only the one of thalweg.
archive_of() {
  case $1 in
    thalweg) package=thalweg ;;
    thalweg-lab) package=thalweg-lab-cli ;;
    *) fail "There is no program $1: name thalweg or thalweg-lab." ;;
  esac
  $CARGO build --locked --profile dist --package $package --target "$target"
  name=$1-v$version-$target
  staging=$archives/$name
  rm -rf "$archives/$name" "$archives/$name".*
  mkdir -p "$staging"
  cp "$target_dir/$target/dist/$1" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$staging"
  [ "$1" != thalweg ] || cp -R deploy/systemd "$staging"
  extras "$target_dir/$target/dist/$1" "$staging"
  $CARGO run --locked --quiet --package xtask -- notices $package "$target" > "$staging/NOTICES.txt"
  $CARGO run --locked --quiet --package xtask -- sbom $package "$target" > "$archives/$name.cdx.json"
  # The same commit gives the same archive around the binary.
  tar --create --directory "$archives" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct)" "$name" | gzip --no-name --best > "$archives/$name.tar.gz"
  rm -r "$staging"
  (cd "$archives" && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256" && sha256sum --check --quiet "$name.tar.gz.sha256")
  ls -l "$archives/$name".*
}

packages() {
  $CARGO publish --dry-run --locked -p thalweg-wire -p thalweg-client
  (cd web && npm pack --dry-run -w thalweg)
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
  check | archive | packages) $command "$@" ;;
  *) fail "usage: deploy/release.sh check TAG | archive TARGET PROGRAM… | packages" ;;
esac

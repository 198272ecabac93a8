# From what `cargo test` prints: the seconds that each binary of tests ran. All crates call
# their black-box tests `it`, and those come behind the crate's unit tests.
/Running unittests/ { crate = $NF; gsub(/.*\/|-[0-9a-f]+\)$/, "", crate); suite = crate }
/Running tests\// { suite = crate " (it)" }
/Doc-tests/ { suite = $2 " (examples in its docs)" }
/^test result:/ { seconds = $NF; sub(/s$/, "", seconds); if (seconds >= 1) printf "%5d s  %s\n", seconds, suite }

# SPDX-License-Identifier: BSD-2-Clause
# Programs with statistics of their own must agree: databases, whose counters are independent
# of this project.
# bats file_tags=bpf

# shellcheck disable=SC2154,SC2016

load helpers

teardown() {
	common_teardown
	rm -rf "${cluster:-}"
}

# Total time of function $1 of group g, in us.
shown_us() {
	json "[.[0].functions[] | select(.name == \"$1\") | .total_ns] | add / 1000 | round"
}

# A program's own figure is within 5 % of the shown one, plus the error of this number of
# calls.
assert_agrees() { # FUNCTION CALLS US
	local shown

	assert_json "[.[0].functions[] | select(.name == \"$1\") | .calls] | add" "$2"
	shown=$(shown_us "$1")
	assert_between "$shown" $(($3 * 95 / 100 - $2 * 4)) $(($3 * 105 / 100 + $2 * 4)) \
		"$1, us; the program says $3"
}

@test "truth: sqlite3's timer matches the calls of its library" {
	local dir=$BATS_TEST_TMPDIR query us

	need_bpf
	need_tool sqlite3 jq
	cp -L "$(ldd "$(command -v sqlite3)" | awk '$1 ~ /^libsqlite3/ { print $3 }')" "$dir/" ||
		skip "sqlite3 has its library built in"
	query='WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300000)
		SELECT sum(x) FROM c;'
	fsn attach g sqlite3_step --lib "$dir"/libsqlite3.so.*
	printf '%s\n' '.timer on' "$query" "$query" >"$dir/queries"
	capture env LD_LIBRARY_PATH="$dir" sh -c 'sqlite3 -batch :memory: <"$1"' sh "$dir/queries"
	us=$(awk '/^Run Time/ { sum += $4 } END { printf "%d", sum * 1000000 }' <<<"$output")
	# Each query has a row and its end; printing is between them.
	fsn stats g --json
	assert_agrees sqlite3_step 4 "$us"
	fsn detach g
}

@test "truth: redis' command statistics match the functions that run commands" {
	local server=$BATS_TEST_TMPDIR/redis-server socket=$BATS_TEST_TMPDIR/s said
	local fill='local t = {} for i = 1, 100 do t[i] = i end
		for i = 1, 2000 do redis.call("LPUSH", "l", unpack(t)) end'

	need_bpf
	need_tool redis-server redis-cli jq
	cp -L "$(command -v redis-server)" "$server"
	nm -D "$server" | grep -q ' T lposCommand$' || skip "this redis-server exports no function"
	start_bg redis "$server" --port 0 --unixsocket "$socket" --save '' --appendonly no \
		--dir "$BATS_TEST_TMPDIR"
	poll_until redis-cli -s "$socket" ping >/dev/null 2>&1
	fsn attach g lposCommand lpushCommand --lib "$server"
	# Long calls: redis' clock has the probes in it, too.
	{
		echo "EVAL '${fill//[$'\n\t']/ }' 0"
		for ((i = 0; i < 20; i++)); do echo "LPOS l none"; done
	} >"$BATS_TEST_TMPDIR/commands"
	capture sh -c 'redis-cli -s "$1" <"$2"' sh "$socket" "$BATS_TEST_TMPDIR/commands"
	capture redis-cli -s "$socket" info commandstats
	said=$output
	fsn stats g --json
	assert_agrees lposCommand 20 "$(sed -n 's/^cmdstat_lpos:calls=20,usec=\([0-9]*\),.*/\1/p' <<<"$said")"
	assert_json '.[0].functions[] | select(.name == "lpushCommand") | .calls' 2000
	grep -q '^cmdstat_lpush:calls=2000,' <<<"$said" || fail "redis says: $said"
	fsn detach g
	stop_bg redis
}

# A database cluster as a user who is not root and cannot read the test's directory.
start_postgres() { # BIN
	cluster=$(mktemp -d /tmp/funcsnoop-pg.XXXXXX)
	chown 65534:65534 "$cluster"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups
		env --chdir="$cluster" HOME="$cluster" PGHOST="$cluster" PGUSER=nobody PGDATABASE=postgres)
	capture -t 120 "${as[@]}" "$1/initdb" -D "$cluster/db" -N -A trust -U nobody
	start_bg postgres "${as[@]}" "$1/postgres" -D "$cluster/db" -k "$cluster" -h '' \
		-c shared_preload_libraries=pg_stat_statements -c fsync=off -c jit=off \
		-c max_parallel_workers_per_gather=0
	poll_until -t 60 "${as[@]}" psql -qc 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements' \
		2>/dev/null
}

@test "truth: postgres' pg_stat_statements matches its executor" {
	local bin=(/usr/lib/postgresql/*/bin) as calls us shown

	need_bpf
	need_root
	need_tool psql jq
	[[ -x ${bin[0]}/initdb ]] || skip "no postgres server"
	[[ -e $(echo /usr/share/postgresql/*/extension/pg_stat_statements.control) ]] ||
		skip "no pg_stat_statements"
	start_postgres "${bin[0]}"
	capture "${as[@]}" psql -qc 'SELECT pg_stat_statements_reset()'
	fsn attach g standard_ExecutorRun ExecutorRun --lib "${bin[0]}/postgres"
	for ((i = 0; i < 5; i++)); do
		echo 'SELECT sum(sqrt(x)) FROM generate_series(1, 200000) x;'
	done >"$BATS_TEST_TMPDIR/queries"
	capture sh -c 'q=$1; shift; exec "$@" <"$q"' sh "$BATS_TEST_TMPDIR/queries" "${as[@]}" psql -qAt
	fsn stats g --json
	shown=$output
	capture "${as[@]}" psql -qAtF ' ' -c "SELECT calls, round(total_exec_time * 1000)
		FROM pg_stat_statements WHERE query LIKE 'SELECT sum(sqrt%'"
	read -r calls us <<<"$output"
	assert_eq "$calls" 5
	output=$shown
	assert_agrees standard_ExecutorRun 5 "$us"
	# It tail-calls the standard function or that of a module: timed to its return or not.
	json -e '.[0].functions[] | select(.name == "ExecutorRun") | .untimed == 5' >/dev/null ||
		assert_agrees ExecutorRun 5 "$us"
	fsn detach g
	stop_bg -INT postgres
}

# Each call of a copy of LIB that COMMAND makes ends once, however that is seen.
ends_are_entries() { # LIB COMMAND...
	local dir=$BATS_TEST_TMPDIR exit

	cp -L "$(ldd "$(command -v "$2")" | awk -v lib="$1" '$1 == lib { print $3 }')" "$dir/" ||
		skip "$2 has no $1"
	for exit in auto ret; do
		fsn attach g '*' --lib "$dir/$1" --exit "$exit" --json
		[[ $exit == ret ]] || exits+=" $(json -r '.[0].functions[].exit' | sort -u | tr '\n' ' ')"
		capture env LD_LIBRARY_PATH="$dir" "${@:2}"
		fsn stats g --json
		assert_json '[.[0].functions[] | .in_flight, .abandoned] | unique' '[0]'
		json -r '.[0].functions[] | select(.calls > 0)
			| "\(.name) \(.calls) \(.returns // 0) \(.untimed)"' | sort >"$dir/$exit"
		fsn detach g
	done
	[[ -s $dir/ret ]]
	assert_eq "$(<"$dir/auto")" "$(<"$dir/ret")" "$1"
}

@test "truth: cheaper exit probes count the same calls and returns as probes on ret" {
	local exits=""

	need_bpf
	need_arch x86_64
	need_tool sqlite3 openssl groff jq
	printf '%s;\n' 'CREATE TABLE t (a INTEGER PRIMARY KEY, b)' \
		'INSERT INTO t VALUES (1, 2), (3, 4)' 'CREATE INDEX i ON t (b)' \
		'SELECT count(*), max(b) FROM t WHERE a > 1' 'DELETE FROM t' >"$BATS_TEST_TMPDIR/sql"
	ends_are_entries libsqlite3.so.0 sqlite3 -batch -init "$BATS_TEST_TMPDIR/sql" :memory: .quit
	ends_are_entries libssl.so.3 openssl ciphers -v ALL
	ends_are_entries libstdc++.so.6 groff -Tascii /dev/null
	[[ $exits == *early*ret* ]] || fail "no cheaper ends: $exits"
}

# SPDX-License-Identifier: BSD-2-Clause
# Many nodes, each scraped by one Prometheus through its own socket: rates, alerts by the rules that
# ship, the dashboard. FSN_NODES of them (8); `make check-fleet` has 50.
#
# A node is a mount namespace and a network without a way out, with a bpffs, a /run/funcsnoop, a
# library and a rank of its own, all by the same names. systemd listens for it, as for the units
# that ship, and starts what answers within it.
# Alone: alerts come within two scrapes.
# bats file_tags=alone
# shellcheck disable=SC2030,SC2031 # each test has its own

load helpers

NODES=${FSN_NODES:-8}
EXAMPLES=$BATS_TEST_DIRNAME/../man/examples
NODE=$BATS_TEST_TMPDIR/node
# Between two scrapes, in s. An answer takes 50 ms of one CPU.
EVERY=$(((NODES + 23) / 24))

# Becomes a node, and then its rank: DIR BINARY FIXTURES.
# shellcheck disable=SC2016	# for the inner shell
BECOME='set -e
mount -t tmpfs node "$0"
mkdir "$0/bpf" "$0/run"
mount -t bpf bpf "$0/bpf"
mkdir -p /run/funcsnoop
mount --bind "$0/run" /run/funcsnoop
cp "$2/libncclstub.so" "$0/libnccl.so.2"
"$1" --bpffs "$0/bpf" attach nccl --lib "$0/libnccl.so.2" --slow 5ms --mode 0644
exec "$2/ncclcall" --wait "$0/libnccl.so.2" rank'

free_ports() { # N
	python3 -c 'import socket, sys
taken = [socket.socket() for i in range(int(sys.argv[1]))]
for s in taken: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in taken], sep="\n")' "$1"
}

# The answer of Prometheus to PATH, by what every bash can.
ask() { # PATH [NAME VALUE]
	local fd path=$1

	(($# == 1)) || path+="?$2=$(jq -rn --arg value "$3" '$value | @uri')"
	{ exec {fd}<>"/dev/tcp/127.0.0.1/$WEB"; } 2>/dev/null || return
	printf 'GET /api/v1/%s HTTP/1.0\r\n\r\n' "$path" >&"$fd"
	sed '1,/^\r$/d' <&"$fd"
	exec {fd}>&-
}

query() { # PROMQL: the values, a line each
	ask query query "$1" | jq -r '.data.result[].value[1]'
}

query_is() { # PROMQL TEXT
	[[ $(query "$1") == "$2" ]]
}

# The shipped rules with another period instead of 15 s.
paced_rules() {
	sed -E "s/\b15s\b/${EVERY}s/g; s/\b1m\b/$((EVERY * 5))s/g; s/\b2m\b/$((EVERY * 10))s/g
		s/for: 5m/for: ${EVERY}s/; s/\[5m\]/[$((EVERY * 5))s]/g; s/\b1h\b/$((EVERY * 5))s/g" \
		"$EXAMPLES/funcsnoop-rules.yml"
}

start_nodes() {
	local n ports

	mapfile -t ports < <(free_ports $((NODES + 1)))
	WEB=${ports[NODES]}
	mkdir "$NODE" "$BATS_TEST_TMPDIR/data"
	paced_rules >"$BATS_TEST_TMPDIR/rules.yml"
	cat >"$BATS_TEST_TMPDIR/prometheus.yml" <<-END
	global: { scrape_interval: ${EVERY}s, scrape_timeout: ${EVERY}s, evaluation_interval: ${EVERY}s }
	rule_files: [ rules.yml ]
	scrape_configs:
	  - job_name: funcsnoop
	    static_configs:
	END
	for ((n = 0; n < NODES; n++)); do
		start_bg "rank$n" unshare --mount --net --propagation private \
			bash -c "$BECOME" "$NODE" "$FUNCSNOOP" "$FIX"
	done
	for ((n = 0; n < NODES; n++)); do
		poll_until -t 120 bg_says_or_ended "rank$n" '^ready '
		bg_says "rank$n" '^ready ' || fail "node $n: $(cat "$(bg_err "rank$n")")"
		start_bg "socket$n" systemd-socket-activate -a --inetd -l "127.0.0.1:${ports[n]}" \
			nsenter --target "$(bg_pid "rank$n")" --mount --net \
			"$FUNCSNOOP" --bpffs "$NODE/bpf" serve --inetd
		echo "      - { targets: [ \"127.0.0.1:${ports[n]}\" ], labels: { instance: node$n } }" \
			>>"$BATS_TEST_TMPDIR/prometheus.yml"
		tell "rank$n"
	done
	start_bg prometheus prometheus --config.file="$BATS_TEST_TMPDIR/prometheus.yml" \
		--storage.tsdb.path="$BATS_TEST_TMPDIR/data" --web.listen-address="127.0.0.1:$WEB" \
		--log.level=warn
}

stop_nodes() {
	local name

	stop_bg prometheus
	for name in "${!BG_PID[@]}"; do
		[[ $name != socket* ]] || stop_bg "$name"
	done
	for name in "${!BG_PID[@]}"; do
		stop_bg "$name"
	done
}

# All alerts that ever fired, a line each: NAME NODE [CODE].
fired() {
	ask query query 'max by (alertname, instance, code) (max_over_time(ALERTS{alertstate="firing"}[1h]))' |
		jq -r '.data.result[].metric | [.alertname, .instance, .code // empty] | join(" ")' | sort
}

# Less what any busy machine has: calls of microseconds that are slower by half, a probe that met
# another one and was missed.
fired_for_sure() {
	fired | grep -vE '^Funcsnoop(Slower|Doubtful) '
}

has_fired() { # LINE...
	local line all

	all=$(fired)
	for line; do
		grep -qxF "$line" <<<"$all" || return
	done
}

# The moments of SERIES' samples, the first one first.
moments() { # SERIES
	ask query query "$1[1h]" | jq -r '.data.result[].values[][0]' | sort -n
}

# Start of the final run of samples of SERIES with VALUE until TO: a call that a scrape happens
# to meet is not a hang.
constant_from() { # SERIES VALUE TO
	ask query query "$1[1h]" | jq -r '.data.result[].values[] | "\(.[0]) \(.[1])"' | sort -n |
		awk -v value="$2" -v to="$3" '$1 > to { exit } $2 != value { from = "" }
			$2 == value && from == "" { from = $1 } END { print from }'
}

# Prints progress if the number of nodes was given.
note() {
	[[ -z ${FSN_NODES-} ]] || echo "# $*" >&3
}

# The alert fires within two scrapes after its waiting time: SECONDS since METRIC is only
# VALUE.
assert_in_time() { # ALERT NODE METRIC VALUE SECONDS
	local alert is late

	alert=$(moments "ALERTS{alertname=\"$1\",instance=\"$2\",alertstate=\"firing\"}" | head -n 1)
	is=$(constant_from "$3{instance=\"$2\",function=\"ncclAllReduce\"}" "$4" "$alert")
	late=$(moments "up{instance=\"$2\"}" | awk -v from="$is" -v wait="$5" -v to="$alert" \
		'$1 > from + wait && $1 <= to' | wc -l)
	note "$1: $late scrapes after $5 s of $3 being $4"
	assert_between "$late" 0 2 "scrapes from what $1 waits for to the alert"
}

# Results of all queries of the dashboard, with its variables set to one node or to all.
assert_dashboard() { # NODE
	local expr answer cnt=0

	while IFS= read -r expr; do
		expr=${expr//\$__rate_interval/$((EVERY * 5))s} expr=${expr//\$instance/$1}
		expr=${expr//\$group/nccl} expr=${expr//\$function/.*}
		refute_dollar "$expr"
		answer=$(ask query query "$expr")
		[[ $(jq -r '.status, (.data.result | length > 0)' <<<"$answer") == $'success\ntrue' ]] ||
			fail "$expr: $answer"
		((++cnt))
	done < <(jq -r '.panels[].targets[].expr' "$EXAMPLES/funcsnoop-grafana.json")
	assert_eq "$cnt" 11 "queries"
}

refute_dollar() { # EXPR
	[[ $1 != *\$* ]] || fail "a variable that Grafana has not: $1"
}

# Values of its variables, by the same queries.
choices() { # VARIABLE
	local query label

	query=$(jq -r --arg name "$1" '.templating.list[] | select(.name == $name).query.query' \
		"$EXAMPLES/funcsnoop-grafana.json")
	[[ $query =~ ^label_values\((.*),\ ([a-z]+)\)$ ]] || fail "no query of labels: $query"
	query=${BASH_REMATCH[1]//\$instance/.*} label=${BASH_REMATCH[2]}
	query=${query//\$group/.*}
	refute_dollar "$query"
	ask "label/$label/values" 'match[]' "$query" | jq -r '.data[]'
}

@test "nodes: alerts and dashboard show hangs, stragglers, errors and slow calls" {
	local calls

	need_bpf
	need_tool prometheus promtool systemd-socket-activate nsenter python3 jq
	start_nodes
	poll_until -t 60 query_is 'count(instance_function:funcsnoop_calls:rate1m{function="ncclAllReduce"} > 0)' "$NODES"
	poll_until -t 60 query_is "count(instance_function:funcsnoop_duration_seconds:p99_5m offset $((EVERY * 5))s > 0)" "$NODES"
	assert_eq "$(query 'count(up == 1)')" "$NODES" "nodes that answer"
	assert_eq "$(fired_for_sure)" "" "alerts before anything is wrong"

	tell rank1 behind
	tell rank2 hang
	tell rank3 fail
	tell rank4 slow
	poll_until -t 120 has_fired "FuncsnoopStraggler node1" "FuncsnoopHang node2" \
		"FuncsnoopStraggler node2" "FuncsnoopErrors node3 ncclInvalidArgument" \
		"FuncsnoopSlower node4" || fail "what has fired: $(fired)"
	# A rank that hangs also makes no calls.
	assert_eq "$(fired_for_sure)" "FuncsnoopErrors node3 ncclInvalidArgument
FuncsnoopHang node2
FuncsnoopStraggler node1
FuncsnoopStraggler node2"
	calls=$(sed -n 's/^behind after //p' "$(bg_out rank1)")
	assert_eq "$(query 'funcsnoop_calls_total{instance="node1",function="ncclAllReduce"}')" "$calls"
	note "$NODES nodes, every $EVERY s; an answer takes $(query 'avg(avg_over_time(scrape_duration_seconds[1h]))') s"
	assert_in_time FuncsnoopStraggler node1 funcsnoop_calls_total "$calls" $((EVERY * 10))
	assert_in_time FuncsnoopHang node2 funcsnoop_in_flight 1 $((EVERY * 5))

	assert_dashboard '.*'
	assert_eq "$(choices instance | sort -V)" "$(printf 'node%d\n' $(seq 0 $((NODES - 1))))"
	assert_eq "$(choices group)" nccl
	assert_eq "$(choices function | grep -c '^nccl')" "$(choices function | wc -l)"
	assert_eq "$(choices function | grep -x ncclAllReduce)" ncclAllReduce
	stop_nodes
}

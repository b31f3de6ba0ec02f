# SPDX-License-Identifier: BSD-2-Clause
# Helpers of the bats files: `load helpers` at the top. A file that needs a setup or
# teardown of its own calls common_setup and common_teardown in them.
#
#	fsn [-s STATUS] [-t SEC] ARG...	 run funcsnoop; then $output, $stderr, $status, $lines
#	capture [-s STATUS] [-t SEC] CMD...	 the same for any command
#	assert_*, refute_*		 what they compare stands in the failure's message
#	start_bg NAME CMD...		 a fixture in the background; its input is `tell NAME`
#	wait_line NAME REGEX, wait_ready NAME, bg_pid NAME, bg_out NAME, wait_bg NAME
#	poll_until [-t SEC] CMD...	 until CMD succeeds
#	assert_only_grows FILE...	 counters of metrics that were read one after another
#	read_links			 the links that this kernel offers, into links[]
#	need_*				 skip, with the reason (tests/needs.bash)
#
# shellcheck shell=bash disable=SC2034,SC2154	# $lines and others are for the tests

bats_require_minimum_version 1.8.0

: "${O:?run tests/run}" "${FUNCSNOOP:?run tests/run}"
FIX=$O/tests/fixtures

# The sourcing file may be in another directory.
# shellcheck source=tests/needs.bash
source "${BASH_SOURCE[0]%/*}/needs.bash"

# --- running -------------------------------------------------------------------

# Runs CMD with a time limit and nothing to read. STATUS may be `any`. Files, not pipes,
# take the output: a process left behind must not keep the test waiting.
capture() {
	local want=0 limit=${FSN_TIMEOUT:-180} out=$BATS_TEST_TMPDIR/.out err=$BATS_TEST_TMPDIR/.err

	while [[ ${1-} == -[st] ]]; do
		if [[ $1 == -s ]]; then want=$2; else limit=$2; fi
		shift 2
	done
	status=0
	timeout -k 5 "$limit" "$@" >"$out" 2>"$err" </dev/null 3>&- || status=$?
	read_text output "$out"
	read_text stderr "$err"
	mapfile -t lines <"$out"
	log_command "$@"
	[[ $want == any || $status == "$want" ]] && return
	fail "status $status, expected $want$([[ $status != 124 ]] || echo "; limit $limit s")"
}

# VARIABLE is what FILE has, without NULs and newlines at the end. No process is started: this is
# done several times a test.
read_text() { # VARIABLE FILE
	local -n text=$1
	local parts IFS=

	mapfile -d '' parts <"$2"
	text="${parts[*]}"
	text=${text%"${text##*[!$'\n']}"}
}

# bats shows this only when the test fails.
log_command() {
	printf '$'
	printf ' %q' "$@"
	printf '\n'
	((${#lines[@]} == 0)) || printf '%s\n' "${lines[@]:0:200}"
	[[ -z $stderr ]] || printf 'stderr: %s\n' "${stderr//$'\n'/$'\nstderr: '}"
	[[ $status == 0 ]] || echo "status $status"
} >&2

fsn() {
	local opts=()

	while [[ ${1-} == -[st] ]]; do
		opts+=("$1" "$2")
		shift 2
	done
	capture "${opts[@]}" "$FUNCSNOOP" "$@"
}

# The names of the links that this kernel offers, of which each has one, into links[].
read_links() {
	fsn feature --json
	mapfile -t links < <(json -r '.links[] | select(.available) | .name')
	[[ -n ${links[*]} ]] || fail "this kernel has no link"
}

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	return 1
}

# --- assertions ------------------------------------------------------------------

differs() {
	printf -- '-- %s\nexpected: %s\nactual:   %s\n' "$1" "$2" "$3" >&2
	return 1
}

assert_eq() { # ACTUAL EXPECTED [WHAT]
	[[ $1 == "$2" ]] || differs "${3:-not equal}" "$2" "$1"
}

assert_between() { # ACTUAL LOW HIGH [WHAT]: whole numbers, ends included
	[[ $1 =~ ^-?[0-9]+$ && $1 -ge $2 && $1 -le $3 ]] ||
		differs "${4:-out of bounds}" "$2 .. $3" "$1"
}

assert_output() { # TEXT: the whole standard output
	[[ $output == "$1" ]] && return
	diff -u --label expected --label actual <(printf '%s\n' "$1") \
		<(printf '%s\n' "$output") >&2
	return 1
}

assert_stderr() { # TEXT: the whole standard error
	assert_eq "$stderr" "$1" "standard error"
}

assert_output_line() { # LINE: one line is exactly this
	grep -qxF -e "$1" <<<"$output" || differs "no such line" "$1" "$output"
}

assert_output_match() { # REGEX: some line matches
	grep -qE -e "$1" <<<"$output" || differs "no line matches" "$1" "$output"
}

refute_output_match() { # REGEX
	! grep -qE -e "$1" <<<"$output" || differs "a line matches" "none with $1" "$output"
}

assert_stderr_match() { # REGEX
	grep -qE -e "$1" <<<"$stderr" || differs "no line of stderr matches" "$1" "$stderr"
}

refute_stderr_match() { # REGEX
	! grep -qE -e "$1" <<<"$stderr" || differs "stderr matches" "none with $1" "$stderr"
}

# Strings are compared without quotes, objects and arrays as one line with sorted keys.
# jq, for which a document is what it lists, and an error is its message: the head of documents is
# tested by 71-documents alone, with `command jq`.
jq() {
	local args=() arg values=0 parsed='' filter='' begin='top | ' top='def top: if type == "object" and .version == 1 then
		if .error then del(.version) | .error |= .message
		else .groups // .calls // .crashes // .allocations // .presets // .targets // .threads // del(.version)
		end else . end; '

	for arg; do
		if ((values)); then
			values=$((values - 1))
			[[ ! $parsed || $arg != '{"version":1,'* ]] ||
				arg=$(command jq -c "$top top" <<<"$arg")
			[[ $values != 0 ]] || parsed=''
		elif [[ $arg == --arg || $arg == --argjson || $arg == --slurpfile || $arg == --rawfile ]]; then
			values=2 parsed=${arg#--arg}
		elif [[ $arg == --indent ]]; then
			values=1
		elif [[ $arg == --null-input || $arg =~ ^-[a-zA-Z]*[nR] ]]; then
			begin=''
		elif [[ $arg == --slurp || $arg =~ ^-[a-zA-Z]*s ]]; then
			begin=${begin:+map(top) | }
		elif [[ $arg != -* && ! $filter ]]; then
			filter=$arg
			args+=($'\n')
			continue
		fi
		args+=("$arg")
	done
	for arg in "${!args[@]}"; do
		[[ ${args[arg]} != $'\n' ]] || args[arg]=$top$begin$filter
	done
	command jq "${args[@]}"
}

json() { # [JQ-OPTION...] EXPR: of $output
	jq -rcS "$@" <<<"$output"
}

assert_json() { # EXPR EXPECTED
	local got

	got=$(json "$1") || differs "jq failed on $1" "$2" "$output"
	assert_eq "$got" "$2" "$1"
}

assert_json_true() { # EXPR
	jq -e "$1" <<<"$output" >/dev/null || differs "not true" "$1" "$output"
}

# --- groups that tests of a file share -------------------------------------------------

# Attaches GROUP for all tests of the file that say the same. Only the first one attaches it; for
# the others it is reset. It ends with the file, or when a test asks for it with other arguments.
share() { # GROUP ARG...
	local said=$BATS_FILE_TMPDIR/shared-$1

	if [[ -e $said && $(<"$said") == "${*@Q}" ]]; then
		fsn reset "$1"
		return
	fi
	share_ends "$1"
	fsn attach "$@"
	echo "${*@Q}" >"$said"
}

share_ends() { # GROUP: detached, if it is shared
	[[ -e $BATS_FILE_TMPDIR/shared-$1 ]] || return 0
	fsn detach "$1"
	rm "$BATS_FILE_TMPDIR/shared-$1"
}

shared_groups() {
	local said

	for said in "$BATS_FILE_TMPDIR"/shared-*; do
		[[ ! -e $said ]] || echo "${said##*/shared-}"
	done
}

# --- what several files attach and read ----------------------------------------------

# Runs CMD without probes, and with those that `auto` chooses on FUNCTIONs of LIB: the output is the
# same, and the numbers are those of TEXT.
unharmed() { # LIB FUNCTIONS TEXT CMD...
	local functions plain

	need_bpf
	read -ra functions <<<"$2"
	capture "${@:4}"
	plain=$output
	fsn attach g "${functions[@]}" --lib "$1"
	capture "${@:4}"
	assert_output "$plain"
	assert_numbers g "$3"
	fsn detach g
}

# Copies the C library of PROGRAM to DIR, a new directory: no other process has probes there.
copy_libc() { # PROGRAM DIR
	local libc

	libc=$(ldd "$1" | awk '$1 == "libc.so.6" { print $3 }')
	[[ -r $libc ]] || skip "no libc.so.6 here"
	mkdir "$2"
	cp "$libc" "$2/libc.so.6"
}

# A configuration, $CONFIG: each GROUP has the FUNCTIONs of libtyped.so (or fix_add), declared.
typed_config() { # GROUP FUNCTION... [-- GROUP FUNCTION...]...
	local group='' func args before='' behind=''
	local -A declared=([ty_i8]='"int8_t v"' [ty_u16]='"unsigned short v"' [ty_i32]='"int n"'
		[ty_u64]='"size_t v"' [ty_bool]='"bool v"' [ty_code]='"code_t v"'
		[ty_ptr]='"void *v"' [ty_void]='"object v"' [ty_text]='"const char *text"'
		[ty_stack]='"int a", "int b", "int c", "int d", "int e", "int f",
			"signed char small", "code_t code", "const char *text"'
		[ty_double]='"double x"' [ty_none]=''
		[fix_add]='"int a", "int b"], "ret": "int", "lib": ["'$FIX/libfix.so'"')

	CONFIG=$BATS_TEST_TMPDIR/typed.json
	{
		printf '{ "lib": "%s", "types": { "object": { "base": "class" },
			"code_t": { "base": "int", "codes": { "2": "tyBad", "-1": "tyNegative" } } }' \
			"$FIX/libtyped.so"
		for func; do
			if [[ $func == -- ]]; then
				group=''
			elif [[ -z $group ]]; then
				group=$func before=''
				printf '%s, "%s_func_sym": {' "$behind" "$group"
				behind=' }'
			else
				args=${declared[$func]}
				printf '%s\n"%s": { "symbol": "%s", "args": [%s] }' "$before" "$func" \
					"$func" "$args"
				before=,
			fi
		done
		echo ' } }'
	} >"$CONFIG"
}

# Rows of GROUP by KEYS: fields of CSV, the first call's first.
rows() { # GROUP KEYS FIELDS
	fsn stats "$1" --by "$2" --format csv --sort calls
	tr -d '\r' <<<"$output" | awk -F, -v fields="$3" '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(fields, want, " "); next }
		{ line = ""; for (i = 1; i <= n; i++) line = line (i > 1 ? " " : "") $at[want[i]]; print line }'
}

# --- programs in the background ------------------------------------------------------

declare -gA BG_PID=() BG_FD=()
declare -g MOUNTS=''

# Offset of a field in a record of the pinned maps.
field_at() { # STRUCT FIELD
	bpftool -j btf dump file "$O/bpf/funcsnoop.bpf.o" | jq -e --arg struct "$1" --arg field "$2" \
		'.types[] | select(.kind == "STRUCT" and .name == $struct).members[] |
			select(.name == $field).bits_offset / 8'
}

# The calls in a pinned map of counters, without a funcsnoop command, which would clean up.
# Filtered calls have a counter of their own next to them.
calls_at() { # PIN
	bpftool -j map dump pinned "$1" | jq -ce '[.[].formatted.value.n.calls]'
}

start_bg() { # NAME CMD...: output in $(bg_out NAME), input by tell
	local name=$1 fifo=$BATS_TEST_TMPDIR/$1.in fd

	shift
	[[ -z ${BG_PID[$name]-} ]] || fail "'$name' runs already"
	# Output of an earlier program with this name must not count.
	rm -f "$fifo" "$BATS_TEST_TMPDIR/$name".{out,err}
	mkfifo "$fifo"
	: >"$BATS_TEST_TMPDIR/$name.out" 2>"$BATS_TEST_TMPDIR/$name.err"
	exec {fd}<>"$fifo"
	"$@" <"$fifo" >"$BATS_TEST_TMPDIR/$name.out" 2>"$BATS_TEST_TMPDIR/$name.err" \
		3>&- {fd}>&- &
	BG_PID[$name]=$!
	BG_FD[$name]=$fd
}

bg_pid() {
	echo "${BG_PID[$1]}"
}

bg_out() {
	echo "$BATS_TEST_TMPDIR/$1.out"
}

bg_err() {
	echo "$BATS_TEST_TMPDIR/$1.err"
}

tell() { # NAME [LINE]: what a fixture that waits goes on by
	echo "${2-}" >&"${BG_FD[$1]}"
}

bg_ended() { # NAME
	local stat threads

	# If only the main thread has exited, other threads run.
	threads=("/proc/${BG_PID[$1]}/task"/*)
	read -r stat 2>/dev/null <"/proc/${BG_PID[$1]}/stat" || return 0
	[[ ${stat##*) } == Z* ]] && ((${#threads[@]} == 1))
}

bg_says() { # NAME REGEX
	grep -qE -e "$2" "$BATS_TEST_TMPDIR/$1.out"
}

bg_says_or_ended() {
	bg_says "$@" || bg_ended "$1"
}

wait_line() { # [-t SEC] NAME REGEX: until a line of its output matches
	local opts=()

	if [[ $1 == -t ]]; then
		opts=(-t "$2")
		shift 2
	fi
	poll_until "${opts[@]}" bg_says_or_ended "$1" "$2" && bg_says "$1" "$2" && return
	cat "$(bg_out "$1")" "$(bg_err "$1")" >&2
	fail "'$1' did not say $2"
}

wait_ready() { # NAME: --wait of the fixtures; the first call comes after `tell NAME`
	wait_line "$1" '^ready '
}

wait_bg() { # [-s STATUS] [-t SEC] NAME: until it ends; $output and $stderr are its own
	local want=0 limit=${FSN_TIMEOUT:-180}

	while [[ $1 == -[st] ]]; do
		if [[ $1 == -s ]]; then want=$2; else limit=$2; fi
		shift 2
	done
	poll_until -t "$limit" bg_ended "$1" || return
	bg_reap "$1"
	read_text output "$(bg_out "$1")"
	read_text stderr "$(bg_err "$1")"
	mapfile -t lines <"$(bg_out "$1")"
	log_command "$1"
	[[ $want == any || $status == "$want" ]] || fail "'$1': status $status, expected $want"
}

stop_bg() { # [-SIGNAL] NAME: sends TERM or the signal, and waits; $status is the result
	local sig=-TERM

	if [[ $1 == -* ]]; then
		sig=$1
		shift
	fi
	kill "$sig" "${BG_PID[$1]}" 2>/dev/null || true
	wait_bg -s any "$1"
}

# Collects the status of a program that has ended.
bg_reap() {
	local fd=${BG_FD[$1]}

	status=0
	wait "${BG_PID[$1]}" || status=$?
	exec {fd}>&-
	unset "BG_PID[$1]" "BG_FD[$1]"
}

poll_until() { # [-t SEC] CMD...
	local limit=${FSN_POLL:-60} end

	if [[ $1 == -t ]]; then
		limit=$2
		shift 2
	fi
	end=$((SECONDS + limit + 1))
	until "$@"; do
		((SECONDS < end)) || fail "not within $limit s: $*" || return
		sleep 0.02
	done
}

# --- nothing is left behind -----------------------------------------------------------

# BPF programs and maps of funcsnoop, one per line: kind, id, type and name. Without JSON and
# jq, because this runs twice per test, also where each program starts in a second.
bpf_objects() {
	local kind

	((EUID == 0)) && command -v bpftool >/dev/null || return 0
	for kind in prog map; do
		bpftool "$kind" show 2>/dev/null | sed -En "s/^([0-9]+: .* name fsn_[^ ]*).*/$kind \\1/p"
	done | sort
}

objects_before() {
	bpf_objects >"$BATS_TEST_TMPDIR/.objects"
}

bpf_objects_new() {
	comm -13 "$BATS_TEST_TMPDIR/.objects" <(bpf_objects)
}

no_new_objects() {
	[[ -z $(bpf_objects_new) ]]
}

# Processes that a test started, directly or not: they carry its mark in the environment.
test_processes() {
	local pid files=(/proc/[0-9]*/environ) # listed here: grep itself carries the mark

	grep -lzxF "FSN_TEST_MARK=$FSN_TEST_MARK" "${files[@]}" 2>/dev/null |
		while IFS=/ read -r _ _ pid _; do
			[[ ! -e /proc/$pid ]] || echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		done 2>/dev/null || true
}

no_test_processes() {
	[[ -z $(test_processes) ]]
}

check_processes() {
	poll_until -t 2 no_test_processes 2>/dev/null && return
	echo "LEFT BEHIND, processes:" >&2
	test_processes >&2
	test_processes | while read -r pid _; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	poll_until no_test_processes
	return 1
}

# The groups' own directory may stay, with the shared groups.
check_pins() {
	local left group shared=()

	for left in "$FUNCSNOOP_BPFFS"/*; do
		[[ $left == *.debug || $left == *'/*' ]] || break
		left=
	done
	[[ -n $left ]] || return 0
	for group in $(shared_groups); do
		shared+=(-path "$FUNCSNOOP_BPFFS/funcsnoop/$group" -prune -o)
	done
	left=$(find "$FUNCSNOOP_BPFFS" -mindepth 1 "${shared[@]}" \
		! -path "$FUNCSNOOP_BPFFS/funcsnoop" ! -name '*.debug' -print 2>/dev/null)
	[[ -n $left ]] || return 0
	printf 'LEFT BEHIND, pins:\n%s\n' "$left" >&2
	fresh_bpffs
	return 1
}

# With no pin, no mode and no owner that a test has left.
fresh_bpffs() {
	rm -f "$BATS_FILE_TMPDIR"/shared-*
	[[ $FSN_IN_RUN == mounts && -z ${FSN_NO_BPF-} ]] || return 0
	find "$FUNCSNOOP_BPFFS" -mindepth 1 -depth ! -name '*.debug' -delete 2>/dev/null || true
	umount -l "$FUNCSNOOP_BPFFS"
	mount -t bpf bpf "$FUNCSNOOP_BPFFS"
}

# Mounts go with the test that made them, the last one first.
drop_mounts() {
	local id parent dev root at new=()

	[[ $FSN_IN_RUN == mounts && $(</proc/self/mountinfo) != "$MOUNTS" ]] || return 0
	while read -r id parent dev root at _; do
		[[ $'\n'$MOUNTS == *$'\n'"$id $parent $dev $root $at "* ]] || new=("$(printf %b "$at")" "${new[@]}")
	done </proc/self/mountinfo
	for at in "${new[@]}"; do
		umount -l "$at" 2>/dev/null || true
	done
}

# FSN_SHARED=1 is for a machine on which others use funcsnoop at the same time. Objects of
# shared groups are checked at the end of the file.
check_objects() {
	[[ -z ${FSN_SHARED-} && -z $(shared_groups) ]] || return 0
	poll_until -t 10 no_new_objects 2>/dev/null && return
	echo "LEFT BEHIND, BPF objects:" >&2
	bpf_objects_new >&2
	return 1
}

# A /run/funcsnoop of the test's own, where it may have one; it goes with the test's mounts.
own_run() {
	[[ $EUID == 0 && -z ${FSN_NO_BPF-} ]] || return 0
	[[ -d /run/funcsnoop ]] || mkdir -m 700 /run/funcsnoop
	mount -t tmpfs -o mode=700 funcsnoop-test /run/funcsnoop
}

# own_run with the calibration that the first such test of the file made: no attach makes its own.
calibrated_run() {
	local made=$BATS_FILE_TMPDIR/run

	own_run
	[[ $EUID == 0 && -z ${FSN_NO_BPF-} ]] || return 0
	if [[ -d $made ]]; then
		cp -p "$made"/* /run/funcsnoop
	else
		fsn feature --calibrate
		cp -pr /run/funcsnoop "$made"
	fi
}

# A cgroup of the test's own that has FILE, or the test is skipped for the reason. It is $CGROUP,
# "${IN_CGROUP[@]}" CMD runs in it, and the test removes it.
own_cgroup() { # FILE WHY-NOT
	CGROUP=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[[ -n $CGROUP ]] || skip "no cgroup v2"
	CGROUP=$CGROUP/funcsnoop-test-$$
	mkdir "$CGROUP" || skip "cannot make a cgroup"
	# shellcheck disable=SC2016	# for the inner shell
	IN_CGROUP=(bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$CGROUP")
	[[ -e $CGROUP/$1 ]] && return
	rmdir "$CGROUP"
	skip "$2"
}

common_setup() {
	export FSN_TEST_MARK=$$-$BATS_SUITE_TEST_NUMBER-$RANDOM
	export HOME=$BATS_TEST_TMPDIR XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
	BG_PID=() BG_FD=()
	MOUNTS=$(</proc/self/mountinfo)
	[[ -n ${FSN_SHARED-} ]] || objects_before
}

common_teardown() {
	local name bad=0

	for name in "${!BG_PID[@]}"; do
		kill -KILL "${BG_PID[$name]}" 2>/dev/null || true
		bg_reap "$name" 2>/dev/null || true
	done
	check_processes || bad=1
	drop_mounts
	# A test that failed or was skipped half-way has not detached; the next one starts clean.
	# To later bats one that was skipped is complete.
	if [[ (-z ${BATS_TEST_COMPLETED-} || -n ${BATS_TEST_SKIPPED-}) &&
		-d $FUNCSNOOP_BPFFS/funcsnoop ]]; then
		timeout 60 "$FUNCSNOOP" detach --all >/dev/null 2>&1 </dev/null || true
		check_pins || bad=1
		fresh_bpffs
	fi
	check_pins || bad=1
	check_objects || bad=1
	return $bad
}

common_setup_file() {
	[[ -n ${FSN_SHARED-} ]] || BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR objects_before
}

# The last test may have failed: then there are none.
common_teardown_file() {
	local group bad=0 BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR

	for group in $(shared_groups); do
		share_ends "$group" || bad=1
	done
	[[ -z ${FSN_NO_BPF-} ]] || return $bad
	check_pins || bad=1
	check_objects || bad=1
	return $bad
}

setup_file() {
	common_setup_file
}

teardown_file() {
	common_teardown_file
}

setup() {
	common_setup
}

teardown() {
	common_teardown
}

# --- numbers ---------------------------------------------------------------------------

# NAME CALLS CARRIED RETURNS IN_FLIGHT ABANDONED UNTIMED for each function that was called,
# then what of the group's health is not 0. Null is `-`.
# shellcheck disable=SC2016 # jq's variables
NUMBERS='def numbers: .[0]
	| (.functions | sort_by(.name, .library) | .[]
		| [.name, .calls, .carried, .returns, .in_flight, .abandoned, .untimed]
		| map(. // "-" | tostring) | join(" ")),
	(.health | to_entries | sort_by(.key as $key |
		(["no_slot", "crowded", "other_stack", "too_deep", "held_calls", "held_times"] | index($key)) // 9)
		| .[] | select(.value > 0) | "\(.key) \(.value)");'

# A line for each function of which something is wrong that is true of every reading; at
# rest what is broken down adds up, too.
# shellcheck disable=SC2016	# jq has variables of its own
SOUND='def unsound: .[].functions[]
	| select(.in_flight != null and .calls + .carried != (.returns // 0) + .in_flight + .abandoned + .untimed)
	| "\(.name): calls + carried is not returns + in_flight + abandoned + untimed";
def unsound_at_rest: .[] as $g | $g.functions[]
	| if .histogram != [] and ([.histogram[].count] | add) != .returns
		then "\(.name): histogram" else empty end,
	if .total_ns != null and (.min_ns > .avg_ns or .avg_ns > .max_ns or .min_ns > .p50_ns
		or .p50_ns > .p90_ns or .p90_ns > .p99_ns or .p99_ns > .p999_ns
		or .p999_ns > .max_ns or .total_ns < .avg_ns * .returns
		or .total_ns > .max_ns * .returns)
		then "\(.name): times" else empty end,
	if .errors != null and $g.health.lost_codes == 0
		and ([.return_codes[].count] | add // 0) != .errors
		then "\(.name): return_codes" else empty end,
	if .processes != [] and $g.health.lost_processes == 0
		and ([.processes[].calls, .ended.calls] | add) != .calls
		then "\(.name): processes" else empty end;'

assert_sound() { # of $output, a reading while calls are made
	assert_eq "$(json "$SOUND unsound")" "" "what is true of every reading"
}

# How the ends of GROUP's calls are seen, and by which kind of link.
assert_ends() { # GROUP EXITS [LINK]
	fsn list "$1" --json
	assert_json '.[0].exits' "$2"
	[[ -z ${3-} ]] || assert_json '.[0].link' "$3"
}

# Reads the statistics of GROUP at rest and compares all its counts with TEXT. The calls in
# flight are as many as `list inflight --all` shows.
assert_numbers() { # GROUP TEXT
	local calls got

	fsn list inflight "$1" --all --json
	calls=$(command jq -c .calls <<<"$output")
	fsn stats "$1" --json
	got=$(json --argjson calls "$calls" "$NUMBERS $SOUND numbers, unsound, unsound_at_rest,
		([.[].functions[].in_flight] | add // 0 | select(. != (\$calls | length))
			| \"\(.) in flight, \(\$calls | length) shown\")")
	assert_eq "$got" "$2" "counts of '$1'"
}

# --- killed ----------------------------------------------------------------------------

ms_of() { # CMD...: how long it takes
	local begin=${EPOCHREALTIME/./}

	"$@" >/dev/null
	echo $(((${EPOCHREALTIME/./} - begin) / 1000 + 1))
}

groups() { # names, space between them
	"$FUNCSNOOP" list --json | jq -r 'map(.name) | join(" ")'
}

# Only the groups of the private bpffs. The next command removes leftovers of a killed one, but
# only after its helper has exited: poll this.
holds_only() { # NAMES
	[[ $(groups) == "$1" ]] &&
		[[ $(find "$FUNCSNOOP_BPFFS/funcsnoop" -mindepth 1 -maxdepth 1 -printf '%f\n' \
			2>/dev/null | sort | xargs) == "$1" ]]
}

# Runs CMD and kills it at a random moment of MS milliseconds and a few more. When this ends
# CMD is dead; what it did apart may still end a step.
killed_within() { # MS CMD...
	local us=$(((RANDOM * 32768 + RANDOM) % ($1 * 1100))) pid

	"${@:2}" </dev/null 3>&- 2>/dev/null &
	pid=$!
	sleep "$(printf '%d.%06d' $((us / 1000000)) $((us % 1000000)))"
	kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
}

# Makes 8,256 calls of fix_ret that each fail with another code: there is room for 8,192.
fill_codes() {
	local from

	# 64 arguments at a time: -1 .. -64, -65 .. -128, ...
	for ((from = 1; from <= 8256; from += 64)); do
		"$FIX/call" --quiet --arg "$(seq -s, "-$from" -1 "-$((from + 63))")" ret 64
	done
}

# Counters in FILE... of metrics, in the order of their making: with the same labels none is less
# than before.
assert_only_grows() { # FILE...
	assert_eq "$(awk '
		/^[a-z_]+_(total|sum|count|bucket)[{]/ {
			series = $0
			sub(/ [^ ]*$/, "", series)
			if (series in was && $NF + 0 < was[series])
				print FILENAME ": " series " " was[series] " -> " $NF
			was[series] = $NF + 0
		}' "$@")" "" "series that have less than before"
}

# The bytes of its code, as it runs and as the file has them.
code_is_whole() { # PID LIBRARY
	local range offset from pages

	read -r range _ offset _ < <(grep -F "r-xp" "/proc/$1/maps" | grep -F "$2")
	from=$((16#${range%-*}))
	pages=$(((16#${range#*-} - from) / 4096))
	cmp <(dd "if=/proc/$1/mem" bs=4096 skip=$((from / 4096)) count=$pages 2>/dev/null) \
		<(dd "if=$2" bs=4096 skip=$((16#$offset / 4096)) count=$pages 2>/dev/null)
}

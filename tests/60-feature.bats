# SPDX-License-Identifier: BSD-2-Clause
# Kernel features found by self-tests, and the lifetime of these results.
# bats file_tags=bpf

load helpers

CACHE=/run/funcsnoop/feature

setup() {
	common_setup
	own_run
}

as_nobody() { # CMD...: without any capability
	capture setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all "$@"
}

experiments='[.return_probes, .return_probes_seccomp, .return_probes_shadow_stack, .call,
	.nop5, .multibyte_nops]'

experiment_objects() {
	bpftool prog show 2>/dev/null | grep -c ' name fsn_experiment ' || true
}

no_experiment_objects() {
	[[ $(experiment_objects) == 0 ]]
}

refute_cached() { # WHAT
	fsn feature --json
	assert_eq "$(json .cached)" false "$1"
	refute_output_match MARKED
}

# --- answers --------------------------------------------------------------------------

# bats test_tags=core,arch
@test "feature: answers match the known behaviour of this kernel version" {
	local nop5 multi

	need_bpf
	case $(uname -m)-$(uname -r) in
	aarch64-*) nop5=true multi=false ;; # nops of more than 4 bytes are of x86-64
	*-5.15.* | *-6.1.*) nop5=true multi=null ;;
	*-6.8.* | *-6.12.*) nop5=true multi=false ;;
	*-6.18.*) nop5=false multi=true ;;
	*-7.2.12*) nop5=true multi=true ;; # has the form for 10-byte nops
	*) skip "nobody has noted what $(uname -r) does" ;;
	esac
	fsn feature --json
	assert_stderr ""
	assert_json '[.return_probes.safe, .return_probes_seccomp.safe, .nop5.safe,
		.multibyte_nops.emulated]' "[true,true,$nop5,$multi]"
	assert_json '.attach | [.return_probes, .nop5_sites, .multibyte_nop_sites]' \
		"[true,$nop5,${multi/null/false}]"
	assert_json '.kernel' "$(uname -r)"
	assert_json '.hints' '[]'
}

@test "feature: the best available link is used, and each shows its reason" {
	local link

	need_bpf
	fsn feature --json
	assert_json '[.links[].name]' '["session","multi","perf"]'
	assert_json '[.links[] | .why | length > 0] | all' true
	link=$(json '[.links[] | select(.available)][0].name')
	assert_json .attach.link "$link"
	fsn attach --link auto g fix_add --lib "$FIX/libfix.so" --exit none
	fsn attach --link "$link" h fix_add --lib "$FIX/libfix.so" --exit none
	fsn detach g h
}

@test "feature: plain text has the same facts, one per line" {
	need_bpf
	fsn feature
	assert_stderr ""
	assert_eq "$(awk '$1 == "kernel" { print $2, $3 }' <<<"$output")" "$(uname -r) $(uname -m)"
	assert_output_match '^return probes +safe  '
	assert_output_match '^CAP_PERFMON +yes  '
	assert_output_match '^attach uses (session|multi|perf) links; '
	assert_output_match '^self-tests [0-9.]+ ms$'
	refute_output_match '^hint:'
	fsn feature
	assert_output_match '^self-tests run before'
}

@test "feature: reports emulated nops of five bytes if the kernel has them" {
	need_bpf
	fsn feature
	if [[ $(uname -m) == x86_64 ]]; then
		assert_output_match '^probes on a 5-byte nop +(safe|unsafe|unknown) '
		assert_output_match '^multi-byte nops +(emulated|stepped|unknown) '
		assert_output_match '; 5-byte nops are '
	else
		refute_output_match 'nop'
		refute_output_match 'no shadow stacks on this machine'
	fi
}

@test "feature: text and JSON have the same state and remark of each fact" {
	local text told

	need_bpf
	fsn feature
	text=$(sed -nE 's/^(.*\S)  +(\S.*\S)  +(\S.*)$/\1|\2|\3/p' <<<"$output")
	fsn feature --json
	told=$(jq -r 'def state(yes; no): if . == null then "not known" elif . then yes else no end;
		(.links[] | "\(.name) links|\(.available | state("yes"; "no"))|\(.why)"),
		("return probes|\(.return_probes.safe | state("safe"; "unsafe"))|\(.return_probes.why)"),
		("probes on a call|\(.call.safe | state("safe"; "unsafe"))|\(.call.why)"),
		("multi-byte nops|\(.multibyte_nops.emulated | state("emulated"; "stepped"))|\(.multibyte_nops.why)"),
		(.capabilities[] | "\(.name)|\(.effective | state("yes"; "no"))|\(.purpose)")' <<<"$output")
	assert_eq "$(wc -l <<<"$told")" 12 "facts that are looked at"
	[[ $(uname -m) == x86_64 ]] || told=$(grep -v nops <<<"$told")
	while IFS= read -r line; do
		grep -qxF -- "$line" <<<"$text" || fail "not in the text: $line"
	done <<<"$told"
}

@test "feature: funcsnoop-json(5) has every key of the document, and no other" {
	need_bpf
	fsn feature --calibrate --json
	assert_eq "$(jq -rn '[inputs | paths | map(strings)[]] | unique[]' <<<"$output" | sort)" \
		"$(awk '/^\.S[sh]/ { on = $0 == ".Ss feature" } on && /^\.It Va/' \
			"$BATS_TEST_DIRNAME/../man/funcsnoop-json.5" |
			sed 's/^\.It Va //; s/ , /\n/g' | sort -u)"
}

@test "feature: overhead is null until calibrated, and saved then" {
	local began kept

	need_bpf
	fsn feature --json
	assert_json '[has("calibration"), .calibration]' '[true,null]'
	fsn feature
	assert_output_match '^not calibrated; --calibrate measures '
	began=$(date -u +%FT%TZ)
	fsn feature --calibrate --json
	kept=$(json .calibration)
	assert_json '.calibration | [.none_ns, .return_ns, .ret_ns] | min > 0' true
	assert_json ".calibration.measured_at | . >= \"$began\" and . <= \"$(date -u +%FT%TZ)\"" true
	fsn feature --json
	assert_json .calibration "$kept"
	fsn feature
	assert_output_match "^calibrated $(jq -r '"\(.measured_at), \(.link) links"' <<<"$kept"), "
	# Figures that don't say when they are from are none.
	sed -i 's/ at [0-9]* / /' /run/funcsnoop/calibration
	fsn feature --json
	assert_json .calibration null
}

@test "feature: calibrates all entries and exits in one run, with its stability" {
	local cells

	need_bpf
	fsn feature --calibrate --json
	assert_json '[.calibration.classes[] | "\(.entry) \(.end)"]' \
		'["emulated none","emulated return","emulated ret","emulated jump","emulated early","stepped none","stepped return","stepped ret","stepped jump","stepped early","syscall none","syscall return"]'
	assert_json ".calibration.link == .attach.link" true
	assert_json '[.calibration.classes[] | select(.end == "none" or .end == "jump") |
		.overhead_ns] | unique' '[null]'
	# The overhead inside the measured time is a part of the whole overhead.
	assert_json '[.calibration.classes[] | select(.entry != "syscall" and (.end | IN("ret", "return", "early"))) |
		.overhead_ns > 0 and .overhead_ns < .cost_ns] | all' true
	# A single-step is two more traps, so it is slower than emulation, also on a busy
	# machine.
	assert_json '.calibration.classes | map({ (.entry): .cost_ns }) | add | .stepped > .emulated' true
	assert_json '.calibration | .steady == (.spread_percent <= 3)' true
	cells=$(json -r '.calibration.classes | length')
	fsn feature
	assert_eq "$(grep -cE '^(emulated|stepped|syscall) +(none|return|ret|jump|early) ' <<<"$output")" "$cells"
	assert_output_match '^calibrated .*, (steady within|noisy by) [0-9]+\.[0-9] %: the overhead of a probed call$'
}

@test "feature: does not use or overwrite the calibration of another build" {
	local file=/run/funcsnoop/calibration other

	need_bpf
	fsn feature --calibrate
	sed -Ei 's/^([a-z]+ of [0-9]+-)[0-9a-f]{16} /\10123456789abcdef /' "$file"
	other=$(tail -n +2 "$file")
	fsn feature --json
	assert_json .calibration null
	fsn feature --calibrate
	fsn feature --json
	assert_json '.calibration == null' false
	assert_eq "$(tail -n 1 "$file")" "$other"
	for _ in {1..6}; do # others go when they are many, the oldest first
		sed -Ei '2p;2s/ of [^ ]* / of 1-00000000000000aa /' "$file"
	done
	fsn feature --calibrate
	assert_eq "$(wc -l <"$file")" 8
	assert_eq "$(grep -c 0123456789abcdef "$file")" 0
}

@test "feature: reports an unstable calibration as noisy" {
	need_bpf
	fsn feature --calibrate
	sed -i 's/ spread [0-9]*:/ spread 31:/' /run/funcsnoop/calibration
	fsn feature --json
	assert_json '.calibration | [.steady, .spread_percent]' '[false,3.1]'
	fsn feature
	assert_output_match '^calibrated .*, noisy by 3\.1 %: the overhead of a probed call$'
}

@test "feature: an argument is wrong usage" {
	fsn -s 2 feature kernel
	assert_stderr_match "takes no argument 'kernel'"
}

@test "feature: works if the parent ignores SIGCHLD" {
	need_bpf
	capture bash -c 'trap "" CHLD; exec "$0" feature --json' "$FUNCSNOOP"
	assert_json '.return_probes.safe' true
}

# --- without privilege -----------------------------------------------------------------

@test "feature: unprivileged status is 0, and untested facts show their requirements" {
	need_root
	need_tool setpriv
	as_nobody "$FUNCSNOOP" feature --json
	assert_json '.return_probes | [.safe, .why]' \
		'[null,"not tried: needs CAP_BPF and CAP_PERFMON"]'
	assert_json '[.links[].available] | unique' '[null]'
	assert_json '.attach | [.link, .multibyte_nop_sites]' '[null,false]'
	assert_json '[.capabilities[].effective] | any' false
	assert_json '.bpffs.usable' false
	assert_json '.hints[0]' "attaching needs CAP_BPF and CAP_PERFMON; try with sudo"
	# Facts that need no probe are known in any case.
	assert_json '.return_probes_seccomp.safe != null' true
	[[ ! -e $CACHE ]] || fail "$CACHE was written"
}

@test "feature: an unprivileged dry run of attach does not refuse the function" {
	need_root
	need_unprivileged "$FIX/libfix.so"
	as_nobody "$FUNCSNOOP" attach g fix_add --lib "$FIX/libfix.so" --dry-run --json
	assert_json '.[0].functions[0].refused' null
}

@test "feature: self-tests need only CAP_BPF and CAP_PERFMON, except with perf links" {
	local caps=-all,+bpf,+perfmon

	need_bpf
	need_tool setpriv
	capture setpriv --reuid 65534 --clear-groups --inh-caps "$caps" --ambient-caps "$caps" \
		--bounding-set "$caps" "$FUNCSNOOP" feature --json
	assert_json '.links[2] | [.available, .why]' '[null,"not tried: needs CAP_SYS_ADMIN"]'
	assert_json '[.capabilities[] | select(.required) | .effective]' '[true,true]'
	if [[ $(json '[.links[].available] | any') == true ]]; then
		assert_json '.return_probes.safe' true
	else
		assert_json '.return_probes.why' "not tried: perf links need CAP_SYS_ADMIN"
		assert_json '.hints[0] | test("CAP_SYS_ADMIN")' true
	fi
}

# --- the cache ---------------------------------------------------------------------------

@test "feature: answers are saved for the next command, and renewed with --fresh" {
	local answers

	need_bpf
	fsn feature --json
	assert_json '[.cached, .experiments_ns > 0]' '[false,true]'
	answers=$(json "$experiments")
	assert_eq "$(stat -c '%a %u' /run/funcsnoop "$CACHE")" $'700 0\n600 0'
	fsn feature --json
	assert_json '[.cached, .experiments_ns]' '[true,null]'
	assert_json "$experiments" "$answers"
	sed -i 's/^0 y .*/0 y MARKED/' "$CACHE"
	fsn feature --json
	assert_json '.return_probes.why' MARKED
	fsn feature --json --fresh
	assert_json '.cached' false
	assert_json "$experiments" "$answers"
	fsn feature --json
	assert_json '.return_probes.why != "MARKED"' true
	assert_eq "$(ls /run/funcsnoop)" feature
}

@test "feature: attach uses the saved answers" {
	need_bpf
	fsn feature
	sed -i 's/^1 . .*/1 n MARKED/' "$CACHE"
	fsn feature --json
	assert_json '[.return_probes_seccomp.safe, .attach.return_probes]' '[false,false]'
	assert_json '.hints | length' 1
	fsn attach g fix_add --lib "$FIX/libfix.so" --exit return --dry-run --json
	assert_json '.[0].functions[0].exit_why | test("unsafe")' true
	fsn feature --fresh
	fsn attach g fix_add --lib "$FIX/libfix.so" --exit return --dry-run --json
	assert_json '.[0].functions[0].exit_why | test("unsafe")' false
}

@test "feature: an unsafe, damaged or outdated cache is ignored" {
	local good=$BATS_TEST_TMPDIR/good

	need_bpf
	fsn feature
	sed 's/^0 y .*/0 y MARKED/' "$CACHE" >"$good"
	renew() {
		rm -rf "$CACHE"
		cp "$good" "$CACHE"
		chmod 600 "$CACHE"
	}
	renew
	fsn feature --json
	assert_json .cached true
	renew && chown 65534 "$CACHE"
	refute_cached "owner"
	renew && chmod 620 "$CACHE"
	refute_cached "mode"
	renew && ln "$CACHE" /run/funcsnoop/second
	refute_cached "two names"
	renew && mv "$CACHE" /run/funcsnoop/other && ln -s other "$CACHE"
	refute_cached "symbolic link"
	renew && sed -i '1s/boot [0-9a-f]/boot x/' "$CACHE"
	refute_cached "boot"
	renew && sed -i '1s/funcsnoop [0-9.]*/funcsnoop 0.0.1/' "$CACHE"
	refute_cached "version"
	renew && sed -i '$d' "$CACHE"
	refute_cached "a line missing"
	renew && echo "6 y MARKED" >>"$CACHE"
	refute_cached "a line more"
	renew && sed -i '2s/ y / x /' "$CACHE"
	refute_cached "no such answer"
	renew && printf '\033[2J' >>"$CACHE"
	refute_cached "control characters"
	renew && truncate -s 0 "$CACHE"
	refute_cached "empty"
	rm "$CACHE" && mkfifo "$CACHE"
	fsn -t 10 feature --json
	assert_json .cached false
	renew && chmod 777 /run/funcsnoop
	refute_cached "folder"
	chmod 700 /run/funcsnoop
	fsn feature --json
	assert_json .cached true
}

@test "feature: self-tests run each time if the answers cannot be saved" {
	need_bpf
	mount -o remount,ro /run/funcsnoop
	fsn feature --json
	assert_json '[.cached, .return_probes.safe]' '[false,true]'
	fsn feature --json
	assert_json '[.cached, .return_probes.safe]' '[false,true]'
	assert_stderr ""
}

# --- nothing is left -----------------------------------------------------------------------

@test "feature: self-tests leave no BPF object and no process" {
	need_bpf
	need_tool bpftool
	fsn feature --fresh
	poll_until no_experiment_objects
	no_test_processes
}

@test "feature: self-tests killed at any moment leave no BPF object and no process" {
	local ms killed=0

	need_bpf
	need_tool bpftool
	for ms in {1..60..3}; do
		timeout -s KILL "0.0$((ms / 10))$((ms % 10))" "$FUNCSNOOP" feature --fresh \
			>/dev/null 2>&1 || ((++killed))
	done
	poll_until -t 10 no_experiment_objects
	poll_until -t 10 no_test_processes
	((killed > 0)) || skip "nothing was slow enough to be killed"
}

# SPDX-License-Identifier: BSD-2-Clause
# The suite itself: a test behaves the same however it was started, after any failure.

# shellcheck disable=SC2154,SC2016

load helpers

# Runs its input as a suite of its own, in which `case` is what begins a test.
suite() { # [-s STATUS]
	{
		echo "load $BATS_TEST_DIRNAME/helpers"
		sed 's/^case /@test /'
	} >"$BATS_TEST_TMPDIR/a.bats"
	capture "$@" env -i PATH="${PATH#"$BATS_LIBEXEC":}" O="$O" FUNCSNOOP="$FUNCSNOOP" \
		TMPDIR="$BATS_TEST_TMPDIR" FSN_SHARED="${FSN_SHARED-}" \
		"$BATS_TEST_DIRNAME/run" "$BATS_TEST_TMPDIR/a.bats"
}

# Reads lines of /proc/PID/status, says each mask of signals once, less 32 and 33: the C library
# keeps these two for itself, so that env can't set them back where somebody ignores them.
signals_said() {
	local name mask

	while IFS=$':\t ' read -r name mask; do
		printf '%s:%016x\n' "$name" $((0x$mask & ~(3 << 31)))
	done | sort -u
}

@test "suite: tests have default signals and umask, also under nohup" {
	trap '' HUP INT QUIT USR1
	umask 077
	suite <<-END
	case "a" {
		grep -E '^Sig(Ign|Blk)' /proc/self/status >"$BATS_TEST_TMPDIR/told"
		assert_eq "\$(umask)" 0022
	}
	END
	assert_eq "$(signals_said <"$BATS_TEST_TMPDIR/told")" $'SigBlk:0000000000000000\nSigIgn:0000000000000000'
	assert_eq "${lines[-1]}" "1 passed, 0 failed, 0 skipped"
}

# Stands for funcsnoop: says which signals are ignored, and fails.
@test "suite: soak and inject start programs with default signals, also under nohup" {
	local told=$BATS_TEST_TMPDIR/told tool

	need_root
	printf '#!/bin/sh\ngrep SigIgn /proc/self/status >>"%s"\nexit 1\n' "$told" \
		>"$BATS_TEST_TMPDIR/funcsnoop"
	chmod +x "$BATS_TEST_TMPDIR/funcsnoop"
	trap '' HUP INT QUIT USR1
	for tool in soak inject; do
		[[ $tool == soak ]] || need_tool strace
		: >"$told"
		capture -s 1 env -u FSN_IN_RUN -u BATS_RUN_TMPDIR FSN_SHARED=1 \
			FUNCSNOOP="$BATS_TEST_TMPDIR/funcsnoop" \
			"$BATS_TEST_DIRNAME/$tool" -O "$O" "$([[ $tool == soak ]] && echo 1 || echo reset)"
		assert_eq "$tool: $(signals_said <"$told")" "$tool: SigIgn:0000000000000000"
	done
}

# Stands for funcsnoop: says which class of file it is to attach, and refuses.
refusing() {
	cat >"$BATS_TEST_TMPDIR/refusing" <<-'END'
	#!/bin/bash
	for file; do
		[[ $file != *.so ]] || echo "class $(od -An -tx1 -j4 -N1 "$file")" >&2
	done
	exit 1
	END
	chmod +x "$BATS_TEST_TMPDIR/refusing"
}

@test "make bench: a command that fails gives no figure, a 32-bit library is passed over" {
	need_bpf
	need_tool jq taskset
	[[ -x $O/tests/bench/spend ]] || skip "the benchmark is not built"
	refusing
	mkdir "$BATS_TEST_TMPDIR/bin"
	{ head -c 4 "$FIX/libfix.so.1" && printf '\1' && tail -c +6 "$FIX/libfix.so.1"; } \
		>"$BATS_TEST_TMPDIR/lib32.so"
	printf '%s\n' '#!/bin/sh' "echo 'libc.so.6 (libc6) => $BATS_TEST_TMPDIR/lib32.so'" \
		"echo 'libc.so.6 (libc6,x86-64) => $FIX/libfix.so.1'" >"$BATS_TEST_TMPDIR/bin/ldconfig"
	chmod +x "$BATS_TEST_TMPDIR/bin/ldconfig"
	FUNCSNOOP=$BATS_TEST_TMPDIR/refusing PATH=$BATS_TEST_TMPDIR/bin:$PATH \
		capture -s 1 "$BATS_TEST_DIRNAME/bench/run" --rows files --rounds 1
	refute_output_match ' ms '
	assert_stderr_match '^bench: .*attach files .*: status 1: class +02$'
}

@test "suite: a failed test leaves nothing for the next one" {
	need_bpf
	suite -s 1 <<-END
	case "a" {
		fsn attach g fix_add --lib "$FIX/libfix.so"
		mkdir "\$FUNCSNOOP_BPFFS/else" "\$FUNCSNOOP_BPFFS/else/where"
		chmod 0777 "\$FUNCSNOOP_BPFFS/funcsnoop"
		chown 65534 "\$FUNCSNOOP_BPFFS/funcsnoop"
		mkdir -p "\$XDG_CONFIG_HOME/funcsnoop/presets"
		echo '{ nonsense' >"\$XDG_CONFIG_HOME/funcsnoop/presets/broken.json"
		mount -t tmpfs t "$BATS_TEST_DIRNAME"
		start_bg c "$FIX/call" --until-line add
		setsid "$FIX/call" --until-line add &
		false
	}
	case "b" {
		[[ -e $BATS_TEST_DIRNAME/helpers.bash ]]
		no_test_processes
		fsn list presets --json
		assert_eq "\$(json '.[].error // empty')" ""
		[[ ! -e \$FUNCSNOOP_BPFFS/else && ! -e \$FUNCSNOOP_BPFFS/funcsnoop ]]
		fsn attach g fix_add --lib "$FIX/libfix.so"
		fsn detach g
	}
	case "c" {
		mkdir "\$FUNCSNOOP_BPFFS/else"
	}
	case "d" {
		[[ ! -e \$FUNCSNOOP_BPFFS/else ]]
	}
	END
	assert_output_match "^not ok 1 a"
	assert_output_match "^ok 2 b"
	assert_output_match "^not ok 3 c"
	assert_output_match "^ok 4 d"
}

# --- where it runs ------------------------------------------------------------------------

@test "suite: README's packages of other distributions are those of deps" {
	local line

	for line in 'dnf install' 'pacman -S'; do
		assert_eq "$(grep -oE "\`$line [^\`]*" "$BATS_TEST_DIRNAME/../README.md" | tr -d '\`')" \
			"$(sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' "$BATS_TEST_DIRNAME/deps" |
				sed -n "s/.*: \($line .*\)/\1/p" | tr -s '[:space:]' ' ' | sed 's/ $//')" "$line"
	done
}

@test "suite: the workflow's make targets exist, and its actions are pinned by hash" {
	local dir=$BATS_TEST_DIRNAME/.. target

	need_tool python3 jq
	python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	output=$(python3 -c 'import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))' \
		"$dir/.github/workflows/check.yml")
	assert_json '[.jobs[].steps[].uses // empty | select(test("@[0-9a-f]{40}$") | not)]' '[]'
	assert_json '.permissions' '{"contents":"read"}'
	for target in $(json -r '.jobs[].steps[].run // empty' | sed -nE 's/^(sudo )?make ([a-z-]+).*/\2/p'); do
		grep -qE "^$target:" "$dir/GNUmakefile" "$dir"/tests/*.mk || fail "make has no $target"
	done
	assert_json '[.jobs[].steps[].run // empty | select(test("make check"))] | length' 2
	assert_eq "$(json -r '.jobs["check-vm"].strategy.matrix.kernel[]' | sort)" \
		"$(sed -n 's/.*(($#)) || set -- //p' "$dir/tests/check-vm" | tr ' ' '\n' | sort)" kernels
}

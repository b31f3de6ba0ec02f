// SPDX-License-Identifier: BSD-2-Clause
// Runs several copies of the workload in turn, round after round, and prints a sample for
// each: "ROUND NAME VALUE". A disturbance longer than a round affects all copies alike, and ratios
// within a round stay true.
//
//	rounds [-r ROUNDS] [-t THREADS] [-c CPU] [-m MS] [-w] [-p] NAME=FILE[:FUNC[:PROGS]]...
//
//	-c	pin the workload; -m: milliseconds of one copy's turn in a round
//	-w	wall time, not processor time
//	-p	the programs' run time by the kernel's accounting instead. PROGS is where they
//		are found: a directory of pinned links, or the process that holds them
//
// The last lines are "calls NAME COUNT": how many calls each copy made in all.
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WORKERS_MAX 16
#define PROGS_MAX   32

struct worker {
	char name[32], file[256], func[32], progs[256];
	pid_t pid;
	FILE *to, *from;
	unsigned long calls, total_calls; /* of a turn; of all */
	int prog_fd[PROGS_MAX];
	int prog_cnt;
};

static struct {
	unsigned long rounds, threads, turn_ms;
	const char *cpu;
	bool wall, programs;
} opt = { .rounds = 200, .threads = 1, .turn_ms = 2 };

static struct worker workers[WORKERS_MAX];
static int worker_cnt;

/* --- the kernel's accounting ---------------------------------------------------------------- */

static void add_prog(struct worker *w, unsigned int id)
{
	struct bpf_prog_info info;
	uint32_t len = sizeof(info);

	for (int i = 0; i < w->prog_cnt; i++) {
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (!bpf_obj_get_info_by_fd(w->prog_fd[i], &info, &len) && info.id == id)
			return;
	}
	if (w->prog_cnt == PROGS_MAX)
		die("%s: more than %d programs", w->name, PROGS_MAX);
	w->prog_fd[w->prog_cnt] = bpf_prog_get_fd_by_id(id);
	if (w->prog_fd[w->prog_cnt] < 0)
		die_errno("%s: cannot open program %u", w->name, id);
	w->prog_cnt++;
}

/* Programs and links both have such a line. */
static void add_fdinfo(struct worker *w, const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	unsigned int id;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "prog_id: %u", &id) == 1)
			add_prog(w, id);
}

static void find_programs(struct worker *w)
{
	bool pins = strchr(w->progs, '/');
	char path[512];
	struct dirent *ent;
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), pins ? "%s" : "/proc/%s/fdinfo", w->progs);
	dir = opendir(path);
	if (!dir)
		die_errno("cannot open %s", path);
	while ((ent = readdir(dir))) {
		if (ent->d_name[0] == '.' || (pins && strncmp(ent->d_name, "link", 4)))
			continue;
		if (!pins) {
			snprintf(path, sizeof(path), "/proc/%.32s/fdinfo/%.64s", w->progs,
				ent->d_name);
			add_fdinfo(w, path);
			continue;
		}
		snprintf(path, sizeof(path), "%s/%.64s", w->progs, ent->d_name);
		fd = bpf_obj_get(path);
		if (fd < 0)
			die_errno("cannot open %s", path);
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		add_fdinfo(w, path);
		close(fd);
	}
	closedir(dir);
	if (!w->prog_cnt)
		die("%s: no programs in %s", w->name, w->progs);
}

static uint64_t run_time_ns(const struct worker *w)
{
	struct bpf_prog_info info;
	uint32_t len;
	uint64_t ns = 0;

	for (int i = 0; i < w->prog_cnt; i++) {
		memset(&info, 0, sizeof(info));
		len = sizeof(info);
		if (bpf_obj_get_info_by_fd(w->prog_fd[i], &info, &len))
			die_errno("%s: cannot read its programs", w->name);
		ns += info.run_time_ns;
	}
	return ns;
}

/* --- workers -------------------------------------------------------------------------------- */

static void start(struct worker *w)
{
	int to[2], from[2];

	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		die_errno("cannot make pipes");
	w->pid = fork();
	if (w->pid < 0)
		die_errno("cannot fork");
	if (!w->pid) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execl(w->file, w->file, opt.cpu, NULL);
		die_errno("cannot run %s", w->file);
	}
	close(to[0]);
	close(from[1]);
	w->to = fdopen(to[1], "w");
	w->from = fdopen(from[0], "r");
}

/* One turn; nanoseconds in all. */
static uint64_t turn(struct worker *w, unsigned long calls)
{
	uint64_t before = opt.programs ? run_time_ns(w) : 0;
	unsigned long cpu, wall;

	calls = (calls + opt.threads - 1) / opt.threads * opt.threads;
	fprintf(w->to, "%s %lu %lu\n", w->func, opt.threads, calls);
	fflush(w->to);
	if (fscanf(w->from, "%lu %lu", &cpu, &wall) != 2)
		die("%s ended", w->file);
	w->total_calls += calls;
	if (opt.programs)
		return run_time_ns(w) - before;
	return opt.wall ? wall : cpu;
}

/* Warms up, and finds how many calls make a turn. */
static void calibrate(struct worker *w)
{
	uint64_t ns, most = opt.turn_ms * 1000000;
	bool programs = opt.programs;

	opt.programs = false;
	w->calls = 64 * opt.threads;
	while ((ns = turn(w, w->calls)) < most / 2 && w->calls < 1UL << 22)
		w->calls *= 2;
	w->calls = w->calls * most / (ns ? ns : 1);
	w->calls = (w->calls + opt.threads) / opt.threads * opt.threads;
	opt.programs = programs;
}

/* Every other round backwards: none always follows the same one. */
static void run(void)
{
	struct worker *w;
	uint64_t ns;

	for (unsigned long r = 0; r < opt.rounds; r++)
		for (int i = 0; i < worker_cnt; i++) {
			w = &workers[r & 1 ? worker_cnt - 1 - i : i];
			turn(w, w->calls / 16 + 64 * opt.threads);
			ns = turn(w, w->calls);
			printf("%lu %s %.3f\n", r, w->name, (double)ns / w->calls);
		}
}

static void parse_worker(char *arg)
{
	struct worker *w = &workers[worker_cnt++];

	if (worker_cnt > WORKERS_MAX)
		die("more than %d workloads", WORKERS_MAX);
	strcpy(w->func, "bench_call");
	if (sscanf(arg, "%31[^=]=%255[^:]:%31[^:]:%255s", w->name, w->file, w->func,
		    w->progs) < 2)
		die("'%s' is not NAME=FILE[:FUNC[:PROGS]]", arg);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "r:t:c:m:wp")) != -1) {
		if (c == 'r')
			opt.rounds = strtoul(optarg, NULL, 10);
		else if (c == 't')
			opt.threads = strtoul(optarg, NULL, 10);
		else if (c == 'm')
			opt.turn_ms = strtoul(optarg, NULL, 10);
		else if (c == 'c')
			opt.cpu = optarg;
		else if (c == 'w')
			opt.wall = true;
		else if (c == 'p')
			opt.programs = true;
		else
			exit(2);
	}
	if (!opt.rounds || !opt.threads || !opt.turn_ms || optind == argc)
		die("usage: rounds [OPTION...] NAME=FILE[:FUNC[:PROGS]]...");
	while (optind < argc)
		parse_worker(argv[optind++]);
}

int main(int argc, char **argv)
{
	int stats = -1;

	parse(argc, argv);
	if (opt.programs) {
		stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (stats < 0)
			die_errno("cannot enable the kernel's accounting of programs");
		for (int i = 0; i < worker_cnt; i++)
			find_programs(&workers[i]);
	}
	for (int i = 0; i < worker_cnt; i++)
		start(&workers[i]);
	for (int i = 0; i < worker_cnt; i++)
		calibrate(&workers[i]);
	run();
	for (int i = 0; i < worker_cnt; i++) {
		printf("calls %s %lu\n", workers[i].name, workers[i].total_calls);
		fclose(workers[i].to);
		waitpid(workers[i].pid, NULL, 0);
	}
	return 0;
}

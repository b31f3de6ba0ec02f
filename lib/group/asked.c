// SPDX-License-Identifier: BSD-2-Clause
// What a group was asked to count, out of the maps that its programs look it up in; and what of
// it was left out.
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "group/group.h"
#include "group/records.h"
#include "proc/proc.h"

/* The keys of a map, which others may change meanwhile: as many as were seen. */
static void read_keys(const struct group *g, enum map_id id, size_t size, void **ret_keys,
	size_t *ret_cnt)
{
	const void *from = NULL;
	char *keys = NULL;
	size_t cnt = 0;

	for (;;) {
		keys = xreallocarray(keys, cnt + 1, size);
		from = cnt ? keys + (cnt - 1) * size : NULL;
		if (cnt == FSN_CHILD_PIDS_MAX ||
			bpf_map_get_next_key(group_fd(g, id), from, keys + cnt * size))
			break;
		cnt++;
	}
	*ret_keys = keys;
	*ret_cnt = cnt;
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void read_numbers(
	const struct group *g, enum map_id id, uint32_t **ret_numbers, size_t *ret_cnt)
{
	void *keys;

	read_keys(g, id, sizeof(uint32_t), &keys, ret_cnt);
	qsort(keys, *ret_cnt, sizeof(uint32_t), compare_numbers);
	*ret_numbers = keys;
}

/* The first "process" says that children are followed; those that have ended come first. */
static void sort_pids(const struct group *g, struct asked *a)
{
	uint32_t none = FSN_PID_NONE;
	size_t ended = 0;

	if (a->pid_cnt && a->pids[0] == FSN_PID_NONE) {
		a->children = true;
		bpf_map_lookup_elem(group_fd(g, MAPID_PIDS), &none, &a->lost_children);
		memmove(a->pids, a->pids + 1, --a->pid_cnt * sizeof(*a->pids));
	}
	for (size_t i = 0; i < a->pid_cnt; i++) {
		uint32_t pid = a->pids[i];

		if (proc_thread("/proc", (pid_t)pid))
			continue;
		memmove(a->pids + ended + 1, a->pids + ended, (i - ended) * sizeof(*a->pids));
		a->pids[ended++] = pid;
	}
	a->ended_cnt = ended;
}

static int read_said(const struct group *g, struct asked *a, struct err *err)
{
	struct fsn_said *said = xcalloc(1, sizeof(*said));
	uint32_t zero = 0;
	int code;

	a->said = said;
	code = map_get(group_fd(g, MAPID_SAID), &zero, said);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	said->condition[sizeof(said->condition) - 1] = '\0';
	said->cpus[sizeof(said->cpus) - 1] = '\0';
	said->cgroups[sizeof(said->cgroups) - 1] = '\0';
	said->argv[sizeof(said->argv) - 1] = '\0';
	a->condition = said->condition;
	a->cpus = said->cpus;
	a->cgroups = said->cgroups;
	a->argv = said->argv;
	a->argv_bytes = sizeof(said->argv);
	while (a->argv_bytes && !a->argv[a->argv_bytes - 1])
		a->argv_bytes--;
	a->argv_bytes += a->argv_bytes > 0;
	return 0;
}

int asked_read(const struct group *g, struct asked *ret_asked, struct err *err)
{
	struct asked *a = ret_asked;
	struct fsn_ctl ctl;
	void *comms = NULL;
	int code;

	*a = (struct asked) { .condition = "", .cpus = "", .cgroups = "", .argv = "" };
	code = group_map_fd(g, MAPID_SAID, "filters", err);
	if (code >= 0)
		code = group_ctl(g, &ctl, err);
	if (!code)
		code = read_said(g, a, err);
	if (code)
		return code;
	a->by_pid = ctl.on & FSN_FILTER_PID;
	if (a->by_pid)
		read_numbers(g, MAPID_PIDS, &a->pids, &a->pid_cnt);
	if (ctl.on & FSN_FILTER_UID)
		read_numbers(g, MAPID_UIDS, &a->uids, &a->uid_cnt);
	if (ctl.on & FSN_FILTER_TID)
		read_numbers(g, MAPID_TIDS, &a->tids, &a->tid_cnt);
	if (ctl.on & FSN_FILTER_COMM) {
		read_keys(g, MAPID_COMMS, sizeof(*a->comms), &comms, &a->comm_cnt);
		a->comms = comms;
	}
	for (size_t i = 0; a->comms && i < a->comm_cnt; i++)
		a->comms[i][FSN_COMM_LEN - 1] = '\0';
	if (!(ctl.on & FSN_FILTER_IF))
		a->condition = "";
	sort_pids(g, a);
	return 0;
}

void asked_done(struct asked *a)
{
	free(a->pids);
	free(a->uids);
	free(a->tids);
	free(a->comms);
	free(a->said);
}

/* --- functions left out to keep to the budget ------------------------------------------------ */

/* The next of its lines, cut off; "" behind the last. */
static char *next_line(struct group_left *left)
{
	char *line = left->text + left->at;
	size_t len = strcspn(line, "\n");

	left->at += len + (line[len] != '\0');
	line[len] = '\0';
	return line;
}

bool group_next_left(const struct group *g, struct group_left *left, struct group_func *ret_func,
	const char **ret_why)
{
	if (!left->text)
		left->text = xstrdup(group_text(g, g->meta.left_out));
	if (!left->text[left->at])
		return false;
	*ret_func = (struct group_func){ .limit = LIMIT_LEFT_OUT };
	ret_func->name = next_line(left);
	ret_func->symbol = next_line(left);
	ret_func->library = next_line(left);
	ret_func->offset = strtoull(next_line(left), NULL, 16);
	*ret_why = next_line(left);
	return true;
}

void group_left_done(struct group_left *left)
{
	free(left->text);
}

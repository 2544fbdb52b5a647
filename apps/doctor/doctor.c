/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-doctor: reads the arguments, and reports or binds. */

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "ui.h"

static void
usage(void)
{
	fputs("usage: weft-doctor [-c FILE] [--json] [-q]\n"
	      "       weft-doctor bind [--yes] ADDRESS [DRIVER]\n"
	      "       weft-doctor restore ADDRESS\n"
	      "\n"
	      "Check whether a target can run on this machine, and print the command that\n"
	      "changes what prevents it: drivers and permissions of NICs, IOMMU, hugepages,\n"
	      "NUMA nodes, processors, links, clock, and what clouds drop. The report changes\n"
	      "nothing. Each line begins with\n"
	      "  ok     it is as it should be\n"
	      "  note   a target runs, but slower, or with a surprise\n"
	      "  STOP   a target does not run, or no host can reach it\n"
	      "and the command that changes it follows in a line of its own.\n"
	      "\n"
	      "  bind      give the NIC at the PCI address ADDRESS to DRIVER: vfio-pci,\n"
	      "            uio_pci_generic or igb_uio [vfio-pci with an IOMMU, else\n"
	      "            uio_pci_generic]\n"
	      "  restore   give the NIC back to the driver that it had before. This is\n"
	      "            remembered in /run/weft-doctor. After a restart of the machine the\n"
	      "            kernel chooses the driver\n"
	      "\n"
	      "  -c, --config FILE   look at what this configuration needs [all NICs of the\n"
	      "                      machine]\n"
	      "      --json          print one JSON document\n"
	      "  -q, --quiet         print only what stands in the way\n"
	      "      --yes           bind a NIC that the default route or an SSH connection\n"
	      "                      uses. Without this option it is refused\n"
	      "      --sysroot DIR   the machine's files are DIR/sys, DIR/proc, DIR/dev and\n"
	      "                      DIR/run, as in a container that has the machine at DIR\n"
	      "  -h, --help          print this text\n"
	      "      --version       print the version\n"
	      "\n"
	      "Exit status: 0 nothing stands in the way, or the NIC was bound or restored; 1\n"
	      "something stands in the way, or an error, which one line describes; 2 a wrong\n"
	      "command line.\n",
	      stdout);
}

struct args {
	const char *config, *sysroot;
	bool json, quiet, yes;
	const char *word[3]; /* command, address, driver */
	int nwords;
};

static void
parse_args(int argc, char **argv, struct args *a)
{
	enum { JSON = 256, YES, SYSROOT, VERSION };
	static const struct option opts[] = {
	        {"config", required_argument, NULL, 'c'},
	        {"json", no_argument, NULL, JSON},
	        {"quiet", no_argument, NULL, 'q'},
	        {"yes", no_argument, NULL, YES},
	        {"sysroot", required_argument, NULL, SYSROOT},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, VERSION},
	        {NULL, 0, NULL, 0},
	};
	int o;

	opterr = 0;
	while ((o = getopt_long(argc, argv, "c:qh", opts, NULL)) != -1) {
		switch (o) {
		case 'c':
			a->config = optarg;
			break;
		case JSON:
			a->json = true;
			break;
		case 'q':
			a->quiet = true;
			break;
		case YES:
			a->yes = true;
			break;
		case SYSROOT:
			a->sysroot = optarg;
			break;
		case 'h':
			usage();
			exit(0);
		case VERSION:
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	for (; optind < argc; optind++) {
		if (a->nwords == 3)
			ui_usage_die("'%s': no such argument", argv[optind]);
		a->word[a->nwords++] = argv[optind];
	}
}

static void
check_args(const struct args *a)
{
	const bool bind = a->nwords > 0 && strcmp(a->word[0], "bind") == 0;
	const bool restore = a->nwords > 0 && strcmp(a->word[0], "restore") == 0;

	if (a->nwords > 0 && !bind && !restore)
		ui_usage_die("'%s': no such command; there are bind and restore", a->word[0]);
	if (a->nwords == 1)
		ui_usage_die("%s needs the address of a NIC, such as 0000:3b:00.0", a->word[0]);
	if (restore && a->nwords > 2)
		ui_usage_die("'%s': no such argument; restore knows the driver", a->word[2]);
	if (a->nwords > 0 && (a->config != NULL || a->json || a->quiet))
		ui_usage_die("--config, --json and --quiet are for the report");
	if (a->yes && !bind)
		ui_usage_die("--yes is for bind");
	if (a->nwords > 0 && !weft_device_is_pci(a->word[1]))
		ui_usage_die("'%s' is no PCI address, such as 0000:3b:00.0", a->word[1]);
}

/** Folders of the machine below DIR. */
static void
roots_below(const char *dir, struct weft_device_roots *at)
{
	static char path[4][PATH_MAX];
	static const char *const names[] = {"sys", "dev", "proc", "run"};
	const char **to[] = {&at->sys, &at->dev, &at->proc, &at->run};

	for (size_t i = 0; i < 4; i++) {
		if (snprintf(path[i], sizeof(path[i]), "%s/%s", dir, names[i]) >=
		    (int)sizeof(path[i]))
			ui_die("--sysroot: the path is too long");
		*to[i] = path[i];
	}
}

static int
report(const struct args *a, const struct weft_device_roots *at)
{
	static struct doctor d;
	char err[CONF_ERR_MAX];

	d.at = at;
	weft_device_self(&d.as);
	d.configured = a->config != NULL;
	conf_defaults(&d.conf);
	if (d.configured && conf_load(a->config, &d.conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	doctor_look(&d);
	if (a->json)
		doctor_print_json(&d, stdout);
	else
		doctor_print(&d, a->quiet, stdout);
	return doctor_count(&d, DOCTOR_STOP) > 0 ? UI_EXIT_FAIL : 0;
}

int
main(int argc, char **argv)
{
	struct weft_device_roots at = weft_device_kernel;
	char said[1024] = "";
	struct args a = {0};
	int rc;

	ui_init("weft-doctor");
	parse_args(argc, argv, &a);
	check_args(&a);
	if (a.sysroot != NULL)
		roots_below(a.sysroot, &at);
	if (a.nwords == 0)
		return report(&a, &at);
	if (strcmp(a.word[0], "bind") == 0)
		rc = doctor_bind(&at, &doctor_real_kernel, a.word[1], a.word[2], a.yes, said,
		                 sizeof(said));
	else
		rc = doctor_restore(&at, &doctor_real_kernel, a.word[1], said, sizeof(said));
	if (rc < 0)
		ui_die("%s", said);
	printf("%s\n", said);
	return 0;
}

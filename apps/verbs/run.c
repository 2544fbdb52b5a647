/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-run: starts a program of libibverbs and librdmacm over weft. */

#include "config.h"
#include "port_args.h"
#include "ui.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void
usage(void)
{
	printf("usage: weft-run PORT-OPTIONS PROGRAM [ARGUMENT...]\n"
	       "       weft-run PORT-OPTIONS --print-env\n"
	       "\n"
	       "Run a program of libibverbs and librdmacm over weft: it finds one RDMA device,\n"
	       "weft0. Sockets programs go the same way by librspreload of librdmacm. Without\n"
	       "port options the environment variable WEFT_CONFIG names the file.\n"
	       "\n"
	       "Port options (--config, or --dev and --address, or --portd):\n"
	       "      --config FILE      use the ports of the first worker of a configuration\n"
	       "                         file\n" PORT_ARGS_HELP
	       "      --portd SOCKET     share the address of the weft-portd that listens there\n"
	       "                         with other processes; --config may name a file without\n"
	       "                         ports beside it\n"
	       "Options:\n"
	       "      --no-p2p           connect to hosts without the peer-to-peer model of\n"
	       "                         MPA; the client has to send first\n"
	       "      --print-env        print the environment as commands of a shell, for\n"
	       "                         programs that are started in another way\n"
	       "  -h, --help             print this text\n"
	       "      --version          print the version\n"
	       "\n"
	       "A port belongs to one process: two programs need two ports, or weft-portd.\n"
	       "Exit status: that of the program; 126 or 127 if it cannot be executed; 1 an\n"
	       "error before that, which one line describes; 2 a wrong command line.\n");
}

/** The library: beside this program in a build tree, else where it is installed. */
static void
find_library(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash != NULL) {
			*slash = '\0';
			if (snprintf(path, size, "%s/" WV_LIBRARY, self) < (int)size &&
			    access(path, R_OK) == 0)
				return;
		}
	}
	if (snprintf(path, size, WEFT_VERBS_DIR "/" WV_LIBRARY) >= (int)size ||
	    access(path, R_OK) != 0)
		ui_die(WV_LIBRARY " is neither beside weft-run nor in " WEFT_VERBS_DIR);
}

/** The program asks the daemon itself; a daemon that is not there is said before it starts. */
static void
set_portd(const char *socket_path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* The program may change its folder. */
	char *path = realpath(socket_path, NULL);

	if (path == NULL)
		ui_die("%s: %s", socket_path, wv_portd_why(-errno));
	if (fd < 0 || strlen(path) >= sizeof(to.sun_path))
		ui_die("%s: %s", path, strerror(fd < 0 ? errno : ENAMETOOLONG));
	strcpy(to.sun_path, path);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
		ui_die("%s: %s", path, wv_portd_why(-errno));
	close(fd);
	setenv(WV_ENV_PORTD, path, 1);
	free(path);
}

static void
set_port(const struct port_args *a, const char *portd)
{
	char mtu[16];

	if (portd != NULL && a->dev != NULL)
		ui_usage_die("give either --portd or --dev with --address");
	if (a->config != NULL && a->dev != NULL)
		ui_usage_die("give either --config or --dev with --address");
	port_args_check(a);
	if (a->dev != NULL && a->address == NULL)
		ui_usage_die("--dev needs --address");
	if (a->config != NULL || a->dev != NULL || portd != NULL) {
		unsetenv(WV_ENV_PORTD);
		unsetenv(WV_ENV_CONFIG);
		unsetenv(WV_ENV_DEV);
		unsetenv(WV_ENV_ADDRESS);
		unsetenv(WV_ENV_MTU);
	}
	if (a->config != NULL) {
		/* The program may change its folder. */
		char *path = realpath(a->config, NULL);

		if (path == NULL)
			ui_die("%s: %s", a->config, strerror(errno));
		setenv(WV_ENV_CONFIG, path, 1);
		free(path);
	}
	if (portd != NULL)
		set_portd(portd);
	if (a->dev != NULL) {
		setenv(WV_ENV_DEV, a->dev, 1);
		setenv(WV_ENV_ADDRESS, a->address, 1);
		if (a->mtu_bytes != 0) {
			snprintf(mtu, sizeof(mtu), "%u", a->mtu_bytes);
			setenv(WV_ENV_MTU, mtu, 1);
		}
	}
}

static void
set_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *all;

	if (old == NULL || *old == '\0') {
		setenv("LD_PRELOAD", library, 1);
		return;
	}
	if (strstr(old, library) != NULL)
		return;
	/* In front: librspreload, for example, finds its next definitions here. */
	if (asprintf(&all, "%s:%s", library, old) < 0)
		ui_die("no memory");
	setenv("LD_PRELOAD", all, 1);
	free(all);
}

/** In single quotes, for a shell. */
static void
print_quoted(const char *name)
{
	const char *v = getenv(name);

	if (v == NULL)
		return;
	printf("export %s='", name);
	for (; *v != '\0'; v++)
		if (*v == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*v);
	printf("'\n");
}

int
main(int argc, char **argv)
{
	enum { PRINT_ENV = 256, NO_P2P, PORTD, VERSION };
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"print-env", no_argument, NULL, PRINT_ENV},
	        {"no-p2p", no_argument, NULL, NO_P2P},
	        {"portd", required_argument, NULL, PORTD},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, VERSION},
	        {NULL, 0, NULL, 0},
	};
	static struct conf conf;
	struct port_args port = {0};
	char err[CONF_ERR_MAX], library[PATH_MAX];
	const char *portd = NULL;
	bool print = false;
	int o;

	ui_init("weft-run");
	opterr = 0;
	while ((o = getopt_long(argc, argv, "+h", opts, NULL)) != -1) {
		if (port_args_take(&port, o, optarg))
			continue;
		switch (o) {
		case PRINT_ENV:
			print = true;
			break;
		case NO_P2P:
			setenv(WV_ENV_P2P, "0", 1);
			break;
		case PORTD:
			portd = optarg;
			break;
		case 'h':
			usage();
			return 0;
		case VERSION:
			ui_version();
			return 0;
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (!print && optind == argc)
		ui_usage_die("name the program");
	set_port(&port, portd);
	if (wv_config_read(&conf, NULL, err, sizeof(err)) != 0)
		ui_die("%s", err);
	find_library(library, sizeof(library));
	set_preload(library);
	if (print) {
		print_quoted(WV_ENV_CONFIG);
		print_quoted(WV_ENV_DEV);
		print_quoted(WV_ENV_ADDRESS);
		print_quoted(WV_ENV_MTU);
		print_quoted(WV_ENV_PORTD);
		print_quoted(WV_ENV_P2P);
		print_quoted("LD_PRELOAD");
		return 0;
	}
	execvp(argv[optind], &argv[optind]);
	o = errno;
	fprintf(stderr, "weft-run: %s: %s\n", argv[optind], strerror(o));
	return o == ENOENT ? 127 : 126;
}

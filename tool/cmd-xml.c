/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `reprise xml`: prints a libvirt domain definition of a guest that can be recorded.
 *
 * images/boot knows emulator, kernel and parameters of the stock guest.  Devices that libvirt adds
 * by default and that cannot be recorded (balloon, USB) are switched off.  So is the PMU, which the
 * stock guest lacks, too.
 */
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "tool/emulator.h"
#include "tool/tool.h"

/* The most vCPUs that the GIC version 2 supports; guests with more get version 3. */
#define GIC2_VCPUS  8

typedef struct Xml {
    char *name;
    StockGuest guest;
    char *kernel;
    char *initrd;
    char *append;
    char *console;              /* a file; NULL: a pseudo terminal that libvirt makes */
} Xml;

static void xml_clear(Xml *xml)
{
    g_free(xml->name);
    stock_guest_clear(&xml->guest);
    g_free(xml->kernel);
    g_free(xml->initrd);
    g_free(xml->append);
    g_free(xml->console);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Xml, xml_clear)

/* What a domain has by its architecture. */
typedef struct Architecture {
    const char *name, *machine, *console;
    bool gic;                   /* it has Arm's interrupt controller */
    const char *features;       /* of <features>, besides that */
    const char *cpu;            /* of <cpu>: as in images/boot */
} Architecture;

static const Architecture architectures[] = {
    {
        .name = "aarch64", .machine = "virt", .console = "console=ttyAMA0",
        .gic = true,
        .features = "    <pmu state='off'/>\n",
        .cpu = "    <model fallback='forbid'>cortex-a72</model>\n",
    }, {
        .name = "x86_64", .machine = "q35", .console = "console=ttyS0",
        .features = "    <acpi/>\n    <apic/>\n",
        .cpu = "    <model fallback='forbid'>Nehalem</model>\n"
               "    <feature policy='require' name='rdrand'/>\n",
    },
};

/* Return NULL if there is no such architecture. */
static const Architecture *architecture_of(const Xml *xml)
{
    const char *name = stock_guest_arch(&xml->guest);

    for (size_t i = 0; i < G_N_ELEMENTS(architectures); i++) {
        if (g_str_equal(name, architectures[i].name)) {
            return &architectures[i];
        }
    }
    return NULL;
}

static const char usage[] =
    "usage: reprise xml [OPTION...] > FILE; virsh define FILE\n"
    "\n"
    "Print a domain definition for libvirt: a guest that can be recorded, in our\n"
    "emulator, with a kernel and an initrd; those of the stock guest unless others\n"
    "are given.  reprise start --domain NAME records it.\n"
    "\n"
    "  --name NAME       of the domain (default: reprise)\n"
    "  --arch A          aarch64 or x86_64 (default: the host's)\n"
    "  --smp N           vCPUs (default: 1)\n"
    "  --mem MiB         memory (default: 512)\n"
    "  --image NAME      instead of the stock guest's, an image that images/build\n"
    "                    made: its name in build/images, or its path\n"
    "  --run CMD         what the stock guest runs (default: a shell)\n"
    "  --kernel FILE     another kernel, and with it:\n"
    "  --initrd FILE     its initrd (default: none)\n"
    "  --append TEXT     its parameters (default: the console's)\n"
    "  --console FILE    where the console's output goes (default: a terminal, for\n"
    "                    virsh console)\n"
    "  --help            show this text\n"
    "\n"
    "libvirt 9.0, of Debian 12, passes options that QEMU 10 lacks; 11.3, of its\n"
    "backports and of Debian 13, is new enough.\n"
    "\n"
    "exit status: 0; 2 there is no such guest\n";

/* Return what is wrong with the options, in words, or NULL. */
static const char *check_options(const Xml *xml)
{
    if (!architecture_of(xml)) {
        return "--arch: aarch64 or x86_64";
    }
    if (xml->guest.smp < 0 || xml->guest.mem < 0) {
        return "--smp and --mem: at least 1";
    }
    if (!xml->kernel && (xml->initrd || xml->append)) {
        return "--initrd and --append come with --kernel";
    }
    if (xml->kernel && (xml->guest.image || xml->guest.run)) {
        return "--image and --run are for the stock guest, not with --kernel";
    }
    if (xml->name && (!*xml->name || strchr(xml->name, '/') || strchr(xml->name, '\n'))) {
        return "--name: a name without a slash";
    }
    return NULL;
}

/* Return false if the command ends here, with exit status *@status. */
static bool parse_arguments(Xml *xml, int argc, char **argv, int *status)
{
    gboolean help = FALSE;
    const GOptionEntry entries[] = {
        { "help", 'h', 0, G_OPTION_ARG_NONE, &help, NULL, NULL },
        { "arch", 0, 0, G_OPTION_ARG_STRING, &xml->guest.arch, NULL, NULL },
        { "name", 0, 0, G_OPTION_ARG_STRING, &xml->name, NULL, NULL },
        { "smp", 0, 0, G_OPTION_ARG_INT, &xml->guest.smp, NULL, NULL },
        { "mem", 0, 0, G_OPTION_ARG_INT, &xml->guest.mem, NULL, NULL },
        { "image", 0, 0, G_OPTION_ARG_FILENAME, &xml->guest.image, NULL, NULL },
        { "run", 0, 0, G_OPTION_ARG_STRING, &xml->guest.run, NULL, NULL },
        { "kernel", 0, 0, G_OPTION_ARG_FILENAME, &xml->kernel, NULL, NULL },
        { "initrd", 0, 0, G_OPTION_ARG_FILENAME, &xml->initrd, NULL, NULL },
        { "append", 0, 0, G_OPTION_ARG_STRING, &xml->append, NULL, NULL },
        { "console", 0, 0, G_OPTION_ARG_FILENAME, &xml->console, NULL, NULL },
        G_OPTION_ENTRY_NULL
    };
    const char *objection;

    if (!parse_options("xml", entries, &help, usage, &argc, &argv, status)) {
        return false;
    }
    if (argc > 1) {
        *status = usage_error("xml: unexpected argument '%s'", argv[1]);
        return false;
    }
    objection = check_options(xml);
    if (objection) {
        *status = usage_error("xml: %s", objection);
        return false;
    }
    return true;
}

/* Return the argument after @option, to be freed by the caller; NULL if there is no such option. */
static char *value_of(char **command, const char *option)
{
    for (; command[0] && command[1]; command++) {
        if (g_str_equal(command[0], option)) {
            return g_strdup(command[1]);
        }
    }
    return NULL;
}

static char *absolute(const char *path)
{
    return path ? g_canonicalize_filename(path, NULL) : NULL;
}

/*
 * Fill in what the user did not give.  Without a kernel of the user's, kernel, initrd and
 * parameters are those of the stock guest.  Return the emulator's path, to be freed by the caller;
 * NULL and @error if there is none.
 */
static char *complete(Xml *xml, GError **error)
{
    g_auto(GStrv) command = NULL;
    g_autofree char *name = NULL;
    char *emulator;

    xml->guest.smp = xml->guest.smp ? xml->guest.smp : 1;
    xml->guest.mem = xml->guest.mem ? xml->guest.mem : 512;
    if (xml->kernel) {
        char *kernel = absolute(xml->kernel), *initrd = absolute(xml->initrd);

        g_free(xml->kernel);
        g_free(xml->initrd);
        xml->kernel = kernel;
        xml->initrd = initrd;
        xml->append = xml->append ? xml->append : g_strdup(architecture_of(xml)->console);
        name = g_strdup_printf("qemu-system-%s", architecture_of(xml)->name);
        emulator = emulator_find(name);
        if (!emulator) {
            g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT,
                        "no %s beside reprise: run ./configure and make first", name);
        }
        return emulator;
    }
    command = emulator_stock_command(&xml->guest, error);
    if (!command) {
        return NULL;
    }
    xml->kernel = value_of(command, "-kernel");
    xml->initrd = value_of(command, "-initrd");
    xml->append = value_of(command, "-append");
    return absolute(command[0]);
}

static void put(GString *text, const char *format, const char *value)
{
    g_autofree char *line = g_markup_printf_escaped(format, value);

    g_string_append(text, line);
}

static void put_machine(GString *text, const Xml *xml)
{
    const Architecture *arch = architecture_of(xml);

    put(text, "  <name>%s</name>\n", xml->name ? xml->name : "reprise");
    g_string_append_printf(text, "  <memory unit='MiB'>%d</memory>\n"
                           "  <vcpu>%d</vcpu>\n"
                           "  <os>\n"
                           "    <type arch='%s' machine='%s'>hvm</type>\n",
                           xml->guest.mem, xml->guest.smp, arch->name, arch->machine);
    put(text, "    <kernel>%s</kernel>\n", xml->kernel);
    if (xml->initrd) {
        put(text, "    <initrd>%s</initrd>\n", xml->initrd);
    }
    put(text, "    <cmdline>%s</cmdline>\n", xml->append);
    g_string_append(text, "  </os>\n  <features>\n");
    if (arch->gic) {
        g_string_append_printf(text, "    <gic version='%d'/>\n",
                               xml->guest.smp > GIC2_VCPUS ? 3 : 2);
    }
    g_string_append_printf(text, "%s"
                           "  </features>\n"
                           "  <cpu mode='custom' match='exact'>\n"
                           "%s"
                           "  </cpu>\n"
                           "  <on_poweroff>destroy</on_poweroff>\n"
                           "  <on_reboot>destroy</on_reboot>\n"
                           "  <on_crash>destroy</on_crash>\n", arch->features, arch->cpu);
}

static char *definition(const Xml *xml, const char *emulator)
{
    g_autoptr(GString) text = g_string_new("<domain type='qemu'>\n");

    put_machine(text, xml);
    put(text, "  <devices>\n    <emulator>%s</emulator>\n", emulator);
    if (xml->console) {
        g_autofree char *file = absolute(xml->console);

        put(text, "    <serial type='file'>\n      <source path='%s'/>\n    </serial>\n", file);
    } else {
        g_string_append(text, "    <serial type='pty'/>\n");
    }
    g_string_append(text, "    <controller type='usb' model='none'/>\n"
                          "    <memballoon model='none'/>\n"
                          "  </devices>\n"
                          "</domain>\n");
    return g_strdup(text->str);
}

int run_xml(int argc, char **argv)
{
    g_auto(Xml) xml = { 0 };
    g_autofree char *emulator = NULL, *text = NULL;
    g_autoptr(GError) error = NULL;
    int status;

    if (!parse_arguments(&xml, argc, argv, &status)) {
        return status;
    }
    emulator = complete(&xml, &error);
    if (!emulator) {
        return input_error(error);
    }
    text = definition(&xml, emulator);
    fputs(text, stdout);
    return STATUS_OK;
}

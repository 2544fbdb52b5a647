/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Clouds: their networks drop what an ordinary network carries, and say nothing. */

#include <stdio.h>
#include <string.h>

#include "doctor.h"

/** What a cloud drops. From the providers' documentation; none of it was tried. */
static const struct {
	enum weft_machine_cloud cloud;
	const char *name;
	const char *address; /* packets of which addresses are dropped */
	const char *assign;  /* the command that makes the address known */
	const char *open;    /* the command that opens the port; TCPPORT is its number */
} clouds[] = {
        {WEFT_CLOUD_EC2, "Amazon EC2",
         "the source/destination check drops packets of addresses that the network interface (ENI) "
         "does not have",
         "aws ec2 assign-private-ip-addresses --network-interface-id ENI --private-ip-addresses "
         "ADDRESS",
         "aws ec2 authorize-security-group-ingress --group-id GROUP --protocol tcp --port TCPPORT "
         "--cidr NETWORK"},
        {WEFT_CLOUD_GCE, "Google Compute Engine",
         "packets of addresses that the instance does not have are dropped, unless it may forward",
         "gcloud compute instances network-interfaces update INSTANCE --aliases ADDRESS/32",
         "gcloud compute firewall-rules create weft --allow tcp:TCPPORT --source-ranges NETWORK"},
        {WEFT_CLOUD_AZURE, "Microsoft Azure",
         "packets of addresses that the NIC does not have are dropped, unless it may forward",
         "az network nic ip-config create --nic-name NIC --resource-group GROUP --name weft "
         "--private-ip-address ADDRESS",
         "az network nsg rule create --nsg-name NSG --resource-group GROUP --name weft --priority "
         "200 --protocol Tcp --access Allow --destination-port-ranges TCPPORT"},
        {WEFT_CLOUD_ORACLE, "Oracle Cloud",
         "the source/destination check drops packets of addresses that the VNIC does not have",
         "oci network vnic assign-private-ip --vnic-id VNIC --ip-address ADDRESS",
         "a rule of the VNIC's security list that admits TCP port TCPPORT"},
        {WEFT_CLOUD_ALIBABA, "Alibaba Cloud",
         "packets of addresses that the network interface (ENI) does not have are dropped",
         "aliyun ecs AssignPrivateIpAddresses --NetworkInterfaceId ENI --PrivateIpAddress.1 "
         "ADDRESS",
         "aliyun ecs AuthorizeSecurityGroup --SecurityGroupId GROUP --IpProtocol tcp --PortRange "
         "TCPPORT/TCPPORT --SourceCidrIp NETWORK"},
        {WEFT_CLOUD_OPENSTACK, "OpenStack",
         "port security drops packets of addresses that the port does not have",
         "openstack port set --allowed-address ip-address=ADDRESS PORT",
         "openstack security group rule create --protocol tcp --dst-port TCPPORT --remote-ip "
         "NETWORK "
         "GROUP"},
        {WEFT_CLOUD_OTHER, NULL, "packets of addresses that the machine does not have are dropped",
         "assign the port's ADDRESS to the machine in the provider's console",
         "admit TCP port TCPPORT in the provider's firewall"},
};

/** A command with the number in place of TCPPORT. */
static void
cloud_port(const char *command, uint32_t port, char *line, size_t size)
{
	static const char word[] = "TCPPORT";
	size_t n = 0;

	while (*command != '\0' && n + sizeof("65535") < size) {
		if (strncmp(command, word, strlen(word)) == 0) {
			n += (size_t)snprintf(line + n, size - n, "%u", port);
			command += strlen(word);
		} else {
			line[n++] = *command++;
		}
	}
	line[n] = '\0';
}

void
look_cloud(struct doctor *d)
{
	const uint32_t port = d->conf.target.listen_port;
	struct doctor_finding *f;
	const char *name;
	char line[256];

	if (d->nnics == 0)
		return; /* its network is not used */
	for (size_t i = 0; i < sizeof(clouds) / sizeof(clouds[0]); i++) {
		if (clouds[i].cloud != d->machine.cloud)
			continue;
		name = clouds[i].name != NULL ? clouds[i].name : d->machine.vendor;
		f = doctor_add(d, DOCTOR_NOTE, "cloud", name);
		doctor_what(f,
		            "%s: use an address that is assigned (from documentation, not tried)",
		            clouds[i].address);
		doctor_mend(f, "%s", clouds[i].assign);
		f = doctor_add(d, DOCTOR_NOTE, "cloud", name);
		doctor_what(f,
		            "its firewall drops what no rule admits, and the machine does not see "
		            "it: clients need TCP port %u (from documentation, not tried)",
		            port);
		cloud_port(clouds[i].open, port, line, sizeof(line));
		doctor_mend(f, "%s", line);
		return;
	}
}

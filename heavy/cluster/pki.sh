#!/bin/sh
# Makes the node's certificates and kubeconfigs below $run/pki.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=heavy/cluster/settings.sh
. "$here/settings.sh"
umask 077
mkdir -p "$run/pki"
cd "$run/pki"

# quietly COMMAND…: openssl speaks of what went well.
quietly() { "$@" 2>openssl.log || { cat openssl.log >&2; exit 1; }; }

key() { quietly openssl ecparam -genkey -name prime256v1 -noout -out "$1.key"; }

# certificate NAME SUBJECT [SAN]
certificate() {
  key "$1"
  {
    echo basicConstraints=CA:FALSE
    echo keyUsage=digitalSignature,keyEncipherment
    echo extendedKeyUsage=clientAuth,serverAuth
    if [ -n "${3-}" ]; then echo "subjectAltName=$3"; fi
  } >"$1.ext"
  quietly openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  quietly openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt"
}

# client NAME SUBJECT: a certificate and NAME.kubeconfig with it.
client() {
  certificate "$1" "$2"
  cat >"$1.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: "https://$node_ip:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: user, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: context, context: {cluster: cluster, user: user}}]
current-context: context
K
}

key ca
quietly openssl req -x509 -new -key ca.key -subj /CN=batlehub-cluster-ca -days 3650 -out ca.crt
quietly openssl genrsa -out sa.key 2048
quietly openssl rsa -in sa.key -pubout -out sa.pub

names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
certificate apiserver /CN=kube-apiserver "IP:$api_ip,IP:$node_ip,IP:127.0.0.1,$names"
certificate kubelet-serving /CN=node1 "IP:$node_ip,DNS:node1"
certificate apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
client admin /O=system:masters/CN=admin
client controller-manager /CN=system:kube-controller-manager
client scheduler /CN=system:kube-scheduler
client kubelet /O=system:nodes/CN=system:node:node1
client proxy /CN=system:kube-proxy
client policies /CN=policies

#!/usr/bin/env bash
# Runs one function of upstream's tests of kubectl on servers that are there, as its test/cmd/legacy-script.sh would.
# The working directory holds upstream's scripts; TMPDIR the server's certificate, apiserver.crt.

unset KUBECONFIG
source hack/lib/init.sh
source hack/lib/test.sh
source test/cmd/legacy-script.sh

kube::util::ensure-temp-dir
trap 'stop-proxy; rm -rf "${KUBE_TEMP}"' EXIT
HOME="${KUBE_TEMP}"
kube::util::ensure-gnu-sed
CONTEXT="test"
kubectl config set-credentials test-admin --token admin-token
kubectl config set-cluster local --insecure-skip-tls-verify --server "https://127.0.0.1:${SECURE_API_PORT}"
kubectl config set-context "${CONTEXT}" --user test-admin --cluster local
kubectl config use-context "${CONTEXT}"
create_and_use_new_namespace

# The variables that the functions share are set in the middle of upstream's loop over them.
export SUPPORTED_RESOURCES=("*")
eval "$(sed -n '/^  kube_flags=(/,/export image_field1/p' test/cmd/legacy-script.sh)"
foundError=""
record_command "$1"
[[ -z "${foundError}" ]]

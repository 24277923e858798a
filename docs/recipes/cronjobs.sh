#!/bin/sh
# Prints a CronJob for each tenant, one minute after the other, so that not all begin at once.
minute=0
while read -r tenant; do
  sed -e "s/'MINUTE /'$((minute % 60)) /" -e "s/TENANT'/$tenant'/" -e "s/cdsync-TENANT/cdsync-$tenant/g" cronjob.template.yaml
  minute=$((minute + 1))
done < tenants.txt
